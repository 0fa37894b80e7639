// Package desired builds the pod of an ImmortalContainer.
//
// [Pod] is a pure function of the specification. It sets only the fields that the specification or the article asks for;
// all others keep the cluster's defaults. Package internal/policy decides if a pod should exist. The SDK adds the owner
// reference, the finalizer and the managed-by label.
package desired
