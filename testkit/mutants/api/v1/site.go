package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Site is a Deployment of its name, owned by it, and a ConfigMap <name>-route, whose key "to" is "pods" while the Deployment
// has a Ready pod, and else "notice".
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SiteSpec `json:"spec,omitempty"`
	Status Status   `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Site) CommonStatus() *Status { return o.Status.CommonStatus() }

// SiteSpec says what is wanted.
type SiteSpec struct {
	// Image is the image of the pods.
	Image string `json:"image"`
	// Replicas is the number of pods.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	Replicas int32 `json:"replicas,omitempty"`
}

// SiteList is a list.
//
// +kubebuilder:object:root=true
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Site `json:"items"`
}
