// Package desired says what the pod of an ImmortalContainer looks like.
//
// [Pod] is a pure function of the specification: it reads nothing, decides nothing about when a pod should exist, and
// sets only what the specification or the article asks for, so that everything else keeps the cluster's defaults. When
// a pod should exist is in internal/life. Ownership, the finalizer and the managed-by label are the SDK's.
package desired
