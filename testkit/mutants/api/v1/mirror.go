package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Mirror is a ConfigMap <name>-mirror, owned by it, with the data of a Secret that users write.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Mirror struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MirrorSpec `json:"spec,omitempty"`
	Status Status     `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Mirror) CommonStatus() *Status { return o.Status.CommonStatus() }

// MirrorSpec says what is wanted.
type MirrorSpec struct {
	// Secret is the name of the Secret.
	// +kubebuilder:validation:MinLength=1
	Secret string `json:"secret,omitempty"`
}

// MirrorList is a list.
//
// +kubebuilder:object:root=true
type MirrorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Mirror `json:"items"`
}
