// Package desired builds the children of a MyApp.
//
// Its functions are pure. They set only the fields that the specification asks for; all others keep the cluster's
// defaults. The operator decides if a child should exist. The SDK adds the owner reference and the managed-by label.
package desired
