package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Timer keeps a value in a ConfigMap of its name, owned by it, and says since when.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Timer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TimerSpec   `json:"spec,omitempty"`
	Status TimerStatus `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Timer) CommonStatus() *Status { return o.Status.CommonStatus() }

// TimerSpec says what is wanted.
type TimerSpec struct {
	// Value is the value.
	// +optional
	Value string `json:"value,omitempty"`
}

// TimerList is a list.
//
// +kubebuilder:object:root=true
type TimerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Timer `json:"items"`
}

// TimerStatus is what was found.
type TimerStatus struct {
	Status `json:",inline"`

	// LastChange is when this generation of the spec was carried out.
	// +optional
	LastChange *metav1.Time `json:"lastChange,omitempty"`
	// LastChangeUnix is the same in seconds since 1970.
	// +optional
	LastChangeUnix int64 `json:"lastChangeUnix,omitempty"`
	// ChangedGeneration is the generation that was carried out then.
	// +optional
	ChangedGeneration int64 `json:"changedGeneration,omitempty"`
}
