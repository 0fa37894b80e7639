package v1

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// MyAppStatus says what runs, and how it is doing.
type MyAppStatus struct {
	conditions.Status `json:",inline"`

	// Phase is what is going on, in one word: Pending, Progressing, Ready, Degraded or Failed.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Message says it in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
	// Replicas is how many pods there are.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// ReadyReplicas is how many of them can serve.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// UpdatedReplicas is how many of them are as the specification says now.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`
	// Selector selects the pods, for controllers that scale the MyApp, such as a HorizontalPodAutoscaler.
	// +optional
	Selector string `json:"selector,omitempty"`
	// Image is what runs in the newest pod that is ready.
	// +optional
	Image string `json:"image,omitempty"`
	// ImageID is what that image was when it was pulled: a tag such as latest may mean another one tomorrow.
	// +optional
	ImageID string `json:"imageID,omitempty"`
	// Volume is the volume of the app, if it has one.
	// +optional
	Volume *VolumeStatus `json:"volume,omitempty"`
	// URL is where the app is reached from outside the cluster, if it is.
	// +optional
	URL string `json:"url,omitempty"`
	// Resources are the objects that belong to the MyApp.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	Resources []conditions.Child `json:"resources,omitempty"`
}

// VolumeStatus is the volume of the app.
type VolumeStatus struct {
	// Name of the claim.
	Name string `json:"name"`
	// Phase of the claim: Pending, Bound or Lost.
	// +optional
	Phase corev1.PersistentVolumeClaimPhase `json:"phase,omitempty"`
	// Capacity is how large the volume is.
	// +optional
	Capacity string `json:"capacity,omitempty"`
	// Requested is the largest size that was asked for and granted. The claim cannot become smaller than that.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Requested string `json:"requested,omitempty"`
}

// Phase is what is going on with a MyApp, in one word.
//
// +kubebuilder:validation:Enum=Pending;Progressing;Ready;Degraded;Failed
type Phase string

// The phases.
const (
	PhasePending     Phase = "Pending"     // nothing runs yet
	PhaseProgressing Phase = "Progressing" // a rollout is in progress
	PhaseReady       Phase = "Ready"       // everything is as specified and works
	PhaseDegraded    Phase = "Degraded"    // it ran, or should run by now, and does not work fully
	PhaseFailed      Phase = "Failed"      // a change by the user is needed
)
