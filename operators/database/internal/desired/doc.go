// Package desired says what the children of each Database look like.
//
// Its functions are pure: they read nothing but their arguments, and set only what the specification asks for, so that
// everything else keeps the cluster's defaults. When a child should exist is the operator's to decide. Ownership and the
// managed-by label are the SDK's.
package desired
