package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// App is a Service <host>, owned by it, if it has a host, and a CronJob of its name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AppSpec   `json:"spec,omitempty"`
	Status AppStatus `json:"status,omitempty"`
}

// CommonStatus returns the common part of the status.
func (o *App) CommonStatus() *Status { return o.Status.CommonStatus() }

// AppSpec says what is wanted.
type AppSpec struct {
	// Host is the name of the Service. Without it there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Host string `json:"host,omitempty"`
	// Image is the image of the CronJob.
	// +optional
	Image string `json:"image,omitempty"`
}

// AppList is a list.
//
// +kubebuilder:object:root=true
type AppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []App `json:"items"`
}

// AppStatus is what was found.
type AppStatus struct {
	Status `json:",inline"`

	// URL is the address of the Service.
	// +optional
	URL string `json:"url,omitempty"`
}
