package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Share copies a ConfigMap that users write to other namespaces, under the name <namespace>-<name>.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Share struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ShareSpec `json:"spec,omitempty"`
	Status Status    `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Share) CommonStatus() *Status { return o.Status.CommonStatus() }

// ShareSpec says what is wanted.
type ShareSpec struct {
	// Source is the name of the ConfigMap, in the namespace of the Share.
	// +kubebuilder:validation:MinLength=1
	Source string `json:"source,omitempty"`
	// Namespaces are the namespaces of the copies.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
}

// ShareList is a list.
//
// +kubebuilder:object:root=true
type ShareList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Share `json:"items"`
}
