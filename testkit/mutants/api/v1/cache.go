package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Cache keeps data in shards: ConfigMaps labelled cache=<name>, which read their configuration once and are replaced
// when it changes. They trust each other by the token in the Secret <name>-auth. All are owned by the Cache.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Cache struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CacheSpec `json:"spec,omitempty"`
	Status Status    `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Cache) CommonStatus() *Status { return o.Status.CommonStatus() }

// CacheSpec says what is wanted.
type CacheSpec struct {
	// Shards is how many there are.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=16
	Shards int32 `json:"shards,omitempty"`
	// Config is the configuration of each shard.
	// +optional
	Config string `json:"config,omitempty"`
}

// CacheList is a list.
//
// +kubebuilder:object:root=true
type CacheList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Cache `json:"items"`
}
