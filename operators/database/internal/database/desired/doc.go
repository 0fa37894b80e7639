// Package desired builds the children of a Database.
//
// Its functions are pure: they depend on their arguments alone and set only fields that follow from the specification, so
// that everything else keeps the cluster's defaults. The reconciler decides when a child exists. The SDK adds ownership and
// the managed-by label.
package desired
