package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// DatabaseStatus says what runs, and how it is doing.
type DatabaseStatus struct {
	conditions.Status `json:",inline"`

	// State is what is going on, in one word: Provisioning, Ready, Degraded, Failed or Hibernated.
	// +optional
	State State `json:"state,omitempty"`
	// Error says what is wrong when the state is Failed.
	// +optional
	Error string `json:"error,omitempty"`
	// Engine is the database server.
	// +optional
	Engine Engine `json:"engine,omitempty"`
	// Version is that which the members are to have.
	// +optional
	Version string `json:"version,omitempty"`
	// CurrentVersion is that which all members have.
	// +optional
	CurrentVersion string `json:"currentVersion,omitempty"`
	// Image is what the members are to run.
	// +optional
	Image string `json:"image,omitempty"`
	// Replicas is how many members there are.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// ReadyReplicas is how many of them work.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// Selector selects the pods, for controllers that scale the Database, such as a HorizontalPodAutoscaler.
	// +optional
	Selector string `json:"selector,omitempty"`
	// Primary is the pod of the primary.
	// +optional
	Primary string `json:"primary,omitempty"`
	// Endpoint is where the primary is reached, as host:port.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// ReadEndpoint is where the replicas are reached, as host:port: the primary if there are none.
	// +optional
	ReadEndpoint string `json:"readEndpoint,omitempty"`
	// SecretName is the Secret with the credentials of the owner of the database.
	// +optional
	SecretName string `json:"secretName,omitempty"`
	// Storage is the last spec.storage that the volumes of all members have been granted.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Storage string `json:"storage,omitempty"`
	// Volumes are the claims of the data, those of former members included.
	// +optional
	// +listType=map
	// +listMapKey=name
	Volumes []Volume `json:"volumes,omitempty"`
	// PendingAction is the manual action that the Database needs, for example "Resize storage to 200Gi".
	// +optional
	PendingAction string `json:"pendingAction,omitempty"`
	// Backup is what became of the dumps.
	// +optional
	Backup *BackupStatus `json:"backup,omitempty"`
	// Restored is what the database began with, once it has it.
	// +optional
	Restored string `json:"restored,omitempty"`
	// PodTemplateDigest is the SHA-256 hash of the pod template that a new version of the operator keeps. It proves that a copy
	// outside of the StatefulSet is not changed.
	// +optional
	PodTemplateDigest string `json:"podTemplateDigest,omitempty"`
}

// Volume is the claim of the data of one member.
type Volume struct {
	// Name of the claim.
	Name string `json:"name"`
	// Requested is how much was asked for.
	// +optional
	Requested string `json:"requested,omitempty"`
	// Capacity is how large the volume is.
	// +optional
	Capacity string `json:"capacity,omitempty"`
}

// BackupStatus is what became of the dumps.
type BackupStatus struct {
	// LastSuccessfulTime is when the last dump that was verified was finished.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`
	// LastFailureTime is when an attempt failed for the last time.
	// +optional
	LastFailureTime *metav1.Time `json:"lastFailureTime,omitempty"`
	// NextScheduleTime is when the next one is due.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
}

// State is what is going on, in one word.
type State string

// Values of State.
const (
	Provisioning State = "Provisioning" // not ready yet for the first time
	Ready        State = "Ready"        // all members are ready
	Degraded     State = "Degraded"     // it works with reduced redundancy or an error
	Failed       State = "Failed"       // manual action is necessary
	Hibernated   State = "Hibernated"   // hibernated by its spec
)
