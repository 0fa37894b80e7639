// Package v1 is the API of the operator. It has one kind, MyApp: an image that runs behind a Service.
//
// It holds the types and the validation rules that the API server enforces. The behavior is in internal/desired. The
// package depends only on k8s.io/api, apimachinery and the SDK's conditions, so that a Go program may import it to create
// objects of this kind.
//
// +kubebuilder:object:generate=true
// +groupName=mycompany.com
package v1
