// Package v1alpha1 is the API of immortal containers. It has one kind, ImmortalContainer: a container that is started
// again after every kind of termination.
//
// It holds the types and the validation rules that the API server enforces. The behavior is in internal/desired and
// internal/policy. The package depends only on k8s.io/api, apimachinery and the SDK's conditions, so that a Go program may
// import it to create ImmortalContainers.
//
// +kubebuilder:object:generate=true
// +groupName=immortalcontainer.flugel.it
package v1alpha1
