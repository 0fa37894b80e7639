// Package v1 is the API of the operator. It has one kind, CopyratorRule: sources, target namespaces and the rules for
// copying.
//
// It holds the types and the validation rules that the API server enforces. The behavior is in internal/policy and
// internal/desired. The package depends only on apimachinery and the SDK's conditions, so that a Go program may import it
// to create objects of this kind.
//
// +kubebuilder:object:generate=true
// +groupName=flant.com
package v1
