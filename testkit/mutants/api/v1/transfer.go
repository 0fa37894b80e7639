package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Transfer keeps data in the ConfigMap <name>-data and a checksum in the ConfigMap <name>-checksum, both owned by it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Transfer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TransferSpec `json:"spec,omitempty"`
	Status Status       `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Transfer) CommonStatus() *Status { return o.Status.CommonStatus() }

// TransferSpec says what is wanted.
type TransferSpec struct {
	// Data is the content.
	// +optional
	Data string `json:"data,omitempty"`
}

// TransferList is a list.
//
// +kubebuilder:object:root=true
type TransferList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Transfer `json:"items"`
}
