package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// ImmortalContainerStatus is the observed state of an ImmortalContainer.
type ImmortalContainerStatus struct {
	conditions.Status `json:",inline"`

	// CurrentPod is the name of the existing pod. It is empty if there is none.
	// +optional
	CurrentPod string `json:"currentPod,omitempty"`
	// StartTimes is the number of pods that were created for this ImmortalContainer. Restarts of a container inside its pod are
	// not included; see containerRestarts.
	// +optional
	// +kubebuilder:validation:Minimum=0
	StartTimes int64 `json:"startTimes,omitempty"`
	// Phase summarizes the conditions: Pending, Running, BackingOff, Suspended, Blocked or Failed.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// PodUID is the UID of the last pod that was counted.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// PodRevision identifies the settings, apart from the image, that this pod was created from.
	// +optional
	PodRevision string `json:"podRevision,omitempty"`
	// PodImage is the requested image of this pod.
	// +optional
	PodImage string `json:"podImage,omitempty"`
	// NodeName is the node of the existing pod.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// LastStartTime is the creation time of the last pod that was counted.
	// +optional
	LastStartTime *metav1.Time `json:"lastStartTime,omitempty"`
	// ContainerRestarts is the number of restarts of the container inside the existing pod.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ContainerRestarts int32 `json:"containerRestarts,omitempty"`
	// ConsecutiveFailures is the number of consecutive pods that ended without a stable run in between. It determines the
	// backoff.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ConsecutiveFailures int32 `json:"consecutiveFailures,omitempty"`
	// NextStartTime is the time at which the backoff ends and the next pod is created. It is empty outside of a backoff.
	// +optional
	NextStartTime *metav1.Time `json:"nextStartTime,omitempty"`
	// LastTermination is the end of the last pod that ended.
	// +optional
	LastTermination *LastTermination `json:"lastTermination,omitempty"`
	// History lists the ends of the last 10 pods, the newest first.
	// +optional
	// +listType=atomic
	History []Termination `json:"history,omitempty"`
}

// Termination is the end of one pod.
type Termination struct {
	// PodUID is the UID of the pod.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// Reason is the reason for the end of the pod, for example OOMKilled, Evicted or Deleted.
	// +optional
	Reason string `json:"reason,omitempty"`
	// ExitCode is the exit code of the container. It is absent if it is unknown.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// FinishedAt is the time at which the container ended, or at which the operator observed the end of the pod.
	// +optional
	FinishedAt metav1.Time `json:"finishedAt,omitempty,omitzero"`
}

// LastTermination is the end of the last pod, with a message.
type LastTermination struct {
	Termination `json:",inline"`

	// Message describes the end of the pod, in at most 256 bytes.
	// +optional
	Message string `json:"message,omitempty"`
}

// Phase summarizes the conditions. It is for people; programs should read the conditions.
type Phase string

// The phases.
const (
	// PhasePending: no container runs yet, and no backoff or suspension delays it.
	PhasePending Phase = "Pending"
	// PhaseRunning: the container runs. The condition Ready reports whether it is ready.
	PhaseRunning Phase = "Running"
	// PhaseBackingOff: the next start is delayed, because earlier pods ended early.
	PhaseBackingOff Phase = "BackingOff"
	// PhaseSuspended: the container is stopped or is being stopped, because spec.suspend is true.
	PhaseSuspended Phase = "Suspended"
	// PhaseBlocked: a foreign pod has the name of the pod.
	PhaseBlocked Phase = "Blocked"
	// PhaseFailed: the API server rejects the pod.
	PhaseFailed Phase = "Failed"
)
