package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Sidecar puts the annotation sidecar=<image> on the ConfigMaps that users label sidecar=<name>.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Sidecar struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SidecarSpec `json:"spec,omitempty"`
	Status Status      `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Sidecar) CommonStatus() *Status { return o.Status.CommonStatus() }

// SidecarSpec says what is wanted.
type SidecarSpec struct {
	// Image is the value of the annotation.
	// +kubebuilder:validation:MinLength=1
	Image string `json:"image,omitempty"`
}

// SidecarList is a list.
//
// +kubebuilder:object:root=true
type SidecarList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Sidecar `json:"items"`
}
