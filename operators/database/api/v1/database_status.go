package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// DatabaseStatus is the observed state of a Database.
type DatabaseStatus struct {
	conditions.Status `json:",inline"`

	// State summarizes the conditions: Provisioning, Ready, Degraded, Failed or Hibernated.
	// +optional
	State State `json:"state,omitempty"`
	// Error describes the failure if the state is Failed.
	// +optional
	Error string `json:"error,omitempty"`
	// Engine is the database server.
	// +optional
	Engine Engine `json:"engine,omitempty"`
	// Version is the desired version of the members.
	// +optional
	Version string `json:"version,omitempty"`
	// CurrentVersion is the version of all members.
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`
	// Image is the desired image of the members.
	// +optional
	Image string `json:"image,omitempty"`
	// Replicas is the number of members.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// ReadyReplicas is the number of ready members.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// Selector selects the pods, for controllers that scale the Database, such as a HorizontalPodAutoscaler.
	// +optional
	Selector string `json:"selector,omitempty"`
	// Primary is the name of the primary's pod.
	// +optional
	Primary string `json:"primary,omitempty"`
	// Endpoint is the address of the primary, as host:port.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// ReadEndpoint is the address of the replicas, as host:port. It is that of the primary if there are no replicas.
	// +optional
	ReadEndpoint string `json:"readEndpoint,omitempty"`
	// SecretName is the name of the Secret with the credentials of the database's owner.
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// Storage is the last spec.storage that was granted to the volumes of all members.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Storage string `json:"storage,omitempty"`
	// Volumes lists the claims of the data, including those of former members.
	// +optional
	// +listType=map
	// +listMapKey=name
	Volumes []Volume `json:"volumes,omitempty"`
	// PendingAction is the manual action that the Database needs, for example "Resize storage to 200Gi".
	// +optional
	PendingAction string `json:"pendingAction,omitempty"`
	// Backup is the observed state of the dumps.
	// +optional
	Backup *BackupStatus `json:"backup,omitempty"`
	// Restored is the source of the initial data. It is set after the restore.
	// +optional
	Restored string `json:"restored,omitempty"`
	// PodTemplateDigest is the SHA-256 hash of the pod template that a new version of the operator keeps. It proves that a copy
	// outside of the StatefulSet is not changed.
	// +optional
	PodTemplateDigest string `json:"podTemplateDigest,omitempty"`
}

// Volume is the claim of the data of one member.
type Volume struct {
	// Name is the name of the claim.
	Name string `json:"name"`
	// Requested is the requested size.
	// +optional
	Requested string `json:"requested,omitempty"`
	// Capacity is the capacity of the volume.
	// +optional
	Capacity string `json:"capacity,omitempty"`
}

// BackupStatus is the observed state of the dumps.
type BackupStatus struct {
	// LastSuccessfulTime is the completion time of the last verified dump.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`
	// LastFailureTime is the time of the last failed attempt.
	// +optional
	LastFailureTime *metav1.Time `json:"lastFailureTime,omitempty"`
	// NextScheduleTime is the time of the next dump.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
}

// State summarizes the conditions. It is for people; programs should read the conditions.
type State string

// Values of State.
const (
	Provisioning State = "Provisioning" // not ready yet for the first time
	Ready        State = "Ready"        // all members are ready
	Degraded     State = "Degraded"     // it works with reduced redundancy or an error
	Failed       State = "Failed"       // manual action is necessary
	Hibernated   State = "Hibernated"   // hibernated by its spec
)
