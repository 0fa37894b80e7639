// Package v1alpha1 is the API of the immortal containers: the kind ImmortalContainer, one container that is started
// again whatever ends it.
//
// It holds the types that users write and read, with the rules that the API server enforces on them. It is not for
// behavior: what follows from a specification is in internal/desired and internal/life. It depends on k8s.io/api,
// apimachinery and the SDK's conditions alone, so that a Go program may import it to create ImmortalContainers.
//
// +kubebuilder:object:generate=true
// +groupName=immortalcontainer.flugel.it
package v1alpha1
