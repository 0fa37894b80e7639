package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Batch is a number of runs: ConfigMaps <name>-run-<number> labelled batch=<name>. The ConfigMap <name>-total counts
// them. All are owned by the Batch.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Batch struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BatchSpec `json:"spec,omitempty"`
	Status Status    `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Batch) CommonStatus() *Status { return o.Status.CommonStatus() }

// BatchSpec says what is wanted.
type BatchSpec struct {
	// Runs is how many there are.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16
	Runs int32 `json:"runs,omitempty"`
}

// BatchList is a list.
//
// +kubebuilder:object:root=true
type BatchList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Batch `json:"items"`
}
