// Package work defines the workload of the benchmark: for each Database a StatefulSet, a Service, a PersistentVolumeClaim
// and a CronJob, and a status.
//
// +kubebuilder:object:generate=true
// +groupName=bench.homeostat.dev
// +versionName=v1
package work

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Database is the custom resource that every contender reconciles.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is what is asked for.
	Spec DatabaseSpec `json:"spec,omitzero"`
	// Status is what a contender says of it.
	// +optional
	Status DatabaseStatus `json:"status,omitzero"`
}

// DatabaseSpec is what is asked for.
type DatabaseSpec struct {
	// Version is the tag of the image.
	Version string `json:"version"`
	// Storage is the size of the data, as a quantity.
	Storage string `json:"storage"`
	// Replicas is how many pods there should be.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
}

// DatabaseStatus is what a contender says of a Database.
type DatabaseStatus struct {
	conditions.Status `json:",inline"`

	// State is set once all children exist.
	// +optional
	State string `json:"state,omitempty"`
	// ReadyReplicas is how many pods are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
}

// StateProvisioned is the final State, which every candidate writes.
const StateProvisioned = "Provisioned"

// CommonStatus implements conditions.Object.
func (d *Database) CommonStatus() *conditions.Status { return &d.Status.Status }

// DatabaseList is a list of Databases.
//
// +kubebuilder:object:root=true
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Database `json:"items"`
}

// GroupVersion is the API version of Database.
var GroupVersion = schema.GroupVersion{Group: "bench.homeostat.dev", Version: "v1"}

// Resource is the resource of Databases.
var Resource = GroupVersion.WithResource("databases")

// AddToScheme registers the kind.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Database{}, &DatabaseList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
