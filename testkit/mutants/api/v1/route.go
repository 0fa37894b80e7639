package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Route directs requests for hosts to itself. One ConfigMap in each namespace, called routes, says for each host
// which Route it belongs to: the one whose name comes first. It has no owner and exists as long as there is a
// host.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Route struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RouteSpec `json:"spec,omitempty"`
	Status Status    `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Route) CommonStatus() *Status { return o.Status.CommonStatus() }

// RouteSpec says what is wanted.
type RouteSpec struct {
	// Hosts are the names to serve.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^[-._a-zA-Z0-9]{1,253}$`
	Hosts []string `json:"hosts,omitempty"`
}

// RouteList is a list.
//
// +kubebuilder:object:root=true
type RouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Route `json:"items"`
}
