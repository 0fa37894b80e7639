package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Snapshot keeps a copy of a volume in a store: ConfigMaps labelled snapshot=<name>. The store knows nothing of
// owners, so the copy has none.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Snapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SnapshotSpec   `json:"spec,omitempty"`
	Status SnapshotStatus `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Snapshot) CommonStatus() *Status { return o.Status.CommonStatus() }

// SnapshotSpec says what is wanted.
type SnapshotSpec struct {
	// Volume is what to copy.
	// +kubebuilder:validation:MinLength=1
	Volume string `json:"volume,omitempty"`
}

// SnapshotList is a list.
//
// +kubebuilder:object:root=true
type SnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Snapshot `json:"items"`
}

// SnapshotStatus is what was found.
type SnapshotStatus struct {
	Status `json:",inline"`

	// Copy is the name of the copy in the store.
	// +optional
	Copy string `json:"copy,omitempty"`
}
