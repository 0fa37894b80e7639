package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Quorum is a set of pods <name>-0, <name>-1 and so on, owned by it. The Ready one with the lowest number has the label
// role=leader. The ConfigMap <name>-members names the Ready pods.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Quorum struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   QuorumSpec `json:"spec,omitempty"`
	Status Status     `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Quorum) CommonStatus() *Status { return o.Status.CommonStatus() }

// QuorumSpec says what is wanted.
type QuorumSpec struct {
	// Members is the number of pods.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	Members int32 `json:"members"`
}

// QuorumList is a list.
//
// +kubebuilder:object:root=true
type QuorumList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Quorum `json:"items"`
}
