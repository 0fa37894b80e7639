package v1

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// MyAppStatus is the observed state of a MyApp.
type MyAppStatus struct {
	conditions.Status `json:",inline"`

	// Phase summarizes the conditions: Pending, Progressing, Ready, Degraded or Failed.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Message describes the phase.
	// +optional
	Message string `json:"message,omitempty"`
	// Replicas is the number of pods.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// ReadyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// UpdatedReplicas is the number of pods with the current pod template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`
	// Selector selects the pods, for controllers that scale the MyApp, such as a HorizontalPodAutoscaler.
	// +optional
	Selector string `json:"selector,omitempty"`
	// Image is the image of the newest ready pod.
	// +optional
	Image string `json:"image,omitempty"`
	// ImageID is the ID of that image, with its digest. A tag such as latest can refer to another image later.
	// +optional
	ImageID string `json:"imageID,omitempty"`
	// Volume is the observed state of the volume.
	// +optional
	Volume *VolumeStatus `json:"volume,omitempty"`
	// URL is the address of the app outside of the cluster: that of the Ingress or of the load balancer.
	// +optional
	URL string `json:"url,omitempty"`
	// Resources lists the children.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	Resources []conditions.Child `json:"resources,omitempty"`
}

// VolumeStatus is the observed state of the volume.
type VolumeStatus struct {
	// Name is the name of the claim.
	Name string `json:"name"`
	// Phase is the phase of the claim: Pending, Bound or Lost.
	// +optional
	Phase corev1.PersistentVolumeClaimPhase `json:"phase,omitempty"`
	// Capacity is the capacity of the volume.
	// +optional
	Capacity string `json:"capacity,omitempty"`
	// Requested is the largest size that was requested and granted. The claim cannot become smaller.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Requested string `json:"requested,omitempty"`
}

// Phase summarizes the conditions of a MyApp. It is for people; programs should read the conditions.
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
