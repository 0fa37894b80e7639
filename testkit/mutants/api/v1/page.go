package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Page is a ConfigMap <name>-page, owned by it, with the text of a template: a ConfigMap that users write.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Page struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PageSpec `json:"spec,omitempty"`
	Status Status   `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Page) CommonStatus() *Status { return o.Status.CommonStatus() }

// PageSpec says what is wanted.
type PageSpec struct {
	// Template is the name of the template.
	// +kubebuilder:validation:MinLength=1
	Template string `json:"template,omitempty"`
}

// PageList is a list.
//
// +kubebuilder:object:root=true
type PageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Page `json:"items"`
}
