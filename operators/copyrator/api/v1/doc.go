// Package v1 is the API of the operator: the kind CopyratorRule, which says what is copied from where to which namespaces.
//
// It holds the types that users write and read, with the rules that the API server enforces on them. It is not for
// behavior: what follows from a rule is in internal/desired. It depends on apimachinery and the SDK's conditions
// alone, so that a Go program may import it to create objects of this kind.
//
// +kubebuilder:object:generate=true
// +groupName=flant.com
package v1
