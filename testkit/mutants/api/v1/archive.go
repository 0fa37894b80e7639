package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Archive keeps signed copies and an index of them: ConfigMaps labelled archive=<name>. They are in a store that
// knows nothing of owners.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Archive struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ArchiveSpec `json:"spec,omitempty"`
	Status Status      `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Archive) CommonStatus() *Status { return o.Status.CommonStatus() }

// ArchiveSpec says what is wanted.
type ArchiveSpec struct {
	// Copies is how many there are.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16
	Copies int32 `json:"copies,omitempty"`
	// Credentials is the name of the Secret whose key "key" signs the copies. Deleting them takes no key.
	// +kubebuilder:validation:MinLength=1
	Credentials string `json:"credentials,omitempty"`
}

// ArchiveList is a list.
//
// +kubebuilder:object:root=true
type ArchiveList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Archive `json:"items"`
}
