package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Portal is a Deployment and a Service of its name, and a Deployment <name>-front, whose pod is on another node and is Ready
// while it reaches the Service. All are owned by it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Portal struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PortalSpec `json:"spec,omitempty"`
	Status Status     `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Portal) CommonStatus() *Status { return o.Status.CommonStatus() }

// PortalSpec says what is wanted.
type PortalSpec struct {
	// Image is the image of both pods.
	Image string `json:"image"`
}

// PortalList is a list.
//
// +kubebuilder:object:root=true
type PortalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Portal `json:"items"`
}
