package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Feed collects posts: ConfigMaps labelled topic=<topic>, which users write. It puts them into the ConfigMap
// <name>-digest, which it owns. The ConfigMap feed-settings limits the length of all digests.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Feed struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FeedSpec `json:"spec,omitempty"`
	Status Status   `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Feed) CommonStatus() *Status { return o.Status.CommonStatus() }

// FeedSpec says what is wanted.
type FeedSpec struct {
	// Topic selects the posts.
	// +kubebuilder:validation:MinLength=1
	Topic string `json:"topic,omitempty"`
}

// FeedList is a list.
//
// +kubebuilder:object:root=true
type FeedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Feed `json:"items"`
}
