// Package api defines the kind that all forms of the operator share.
//
// +kubebuilder:object:generate=true
// +groupName=convert.homeostat.dev
// +versionName=v1
package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Webapp is a program that answers HTTP and is watched by monitoring.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Webapp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   WebappSpec   `json:"spec,omitzero"`
	Status WebappStatus `json:"status,omitzero"`
}

// WebappSpec is what is asked for.
type WebappSpec struct {
	// Image is what to run.
	Image string `json:"image"`
	// Replicas is how many pods there should be.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// Port is where the program listens and the Service answers.
	Port int32 `json:"port"`
}

// WebappStatus is what the operator found.
type WebappStatus struct {
	conditions.Status `json:",inline"`

	// ReadyReplicas is how many pods are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
}

// CommonStatus implements conditions.Object.
func (w *Webapp) CommonStatus() *conditions.Status { return &w.Status.Status }

// WebappList is a list of Webapps.
//
// +kubebuilder:object:root=true
type WebappList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Webapp `json:"items"`
}

// GroupVersion is the API version of Webapp.
var GroupVersion = schema.GroupVersion{Group: "convert.homeostat.dev", Version: "v1"}

// AddToScheme registers the kind.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Webapp{}, &WebappList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
