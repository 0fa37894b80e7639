package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Bucket keeps content in a ConfigMap of its name, owned by it. It takes over no ConfigMap of another client.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Bucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BucketSpec `json:"spec,omitempty"`
	Status Status     `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Bucket) CommonStatus() *Status { return o.Status.CommonStatus() }

// BucketSpec says what is wanted.
type BucketSpec struct {
	// Content is what the ConfigMap has under the key "content".
	// +optional
	Content string `json:"content,omitempty"`
}

// BucketList is a list.
//
// +kubebuilder:object:root=true
type BucketList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Bucket `json:"items"`
}
