package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Website shows files: a ConfigMap and, if it is exposed, a Service, both of its name and owned by it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WebsiteSpec `json:"spec,omitempty"`
	Status Status      `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *Website) CommonStatus() *Status { return o.Status.CommonStatus() }

// WebsiteSpec says what is wanted.
type WebsiteSpec struct {
	// Files are the content of the ConfigMap.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="a name consists of letters, digits, -, _ and ."
	Files map[string]string `json:"files,omitempty"`
	// Exposed asks for the Service.
	// +optional
	Exposed bool `json:"exposed,omitempty"`
}

// WebsiteList is a list.
//
// +kubebuilder:object:root=true
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Website `json:"items"`
}
