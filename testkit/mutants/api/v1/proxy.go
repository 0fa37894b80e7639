package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Proxy is a Service and a ConfigMap, both of its name, and on request a second Service <name>-metrics, all owned by
// it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Proxy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProxySpec `json:"spec,omitempty"`
	Status Status    `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Proxy) CommonStatus() *Status { return o.Status.CommonStatus() }

// ProxySpec says what is wanted.
type ProxySpec struct {
	// Settings are the content of the ConfigMap.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="a name consists of letters, digits, -, _ and ."
	Settings map[string]string `json:"settings,omitempty"`
	// Metrics asks for the second Service.
	// +optional
	Metrics bool `json:"metrics,omitempty"`
	// Frozen makes the ConfigMap immutable. Other settings then need another ConfigMap.
	// +optional
	Frozen bool `json:"frozen,omitempty"`
}

// ProxyList is a list.
//
// +kubebuilder:object:root=true
type ProxyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Proxy `json:"items"`
}
