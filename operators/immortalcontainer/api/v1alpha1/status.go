package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// ImmortalContainerStatus says what is running and what has been.
type ImmortalContainerStatus struct {
	conditions.Status `json:",inline"`

	// CurrentPod is the name of the pod that exists now. It is empty while there is none.
	// +optional
	CurrentPod string `json:"currentPod,omitempty"`
	// StartTimes is how many pods were ever created for this ImmortalContainer. Restarts of the container inside its
	// pod are not among them; see containerRestarts.
	// +optional
	// +kubebuilder:validation:Minimum=0
	StartTimes int64 `json:"startTimes,omitempty"`
	// Phase is what is going on, in one word: Pending, Running, BackingOff, Suspended, Blocked or Failed.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// PodUID is the UID of the pod that was counted last.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// PodRevision identifies what that pod was created from, apart from the image.
	// +optional
	PodRevision string `json:"podRevision,omitempty"`
	// PodImage is the image that was asked for in that pod.
	// +optional
	PodImage string `json:"podImage,omitempty"`
	// NodeName is the node of the pod that exists now.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// LastStartTime is when the pod that was counted last was created.
	// +optional
	LastStartTime *metav1.Time `json:"lastStartTime,omitempty"`
	// ContainerRestarts is how often the node has restarted the container inside the pod that exists now.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ContainerRestarts int32 `json:"containerRestarts,omitempty"`
	// ConsecutiveFailures is how many pods ended one after another without a stable run in between. The backoff grows
	// with it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ConsecutiveFailures int32 `json:"consecutiveFailures,omitempty"`
	// NextStartTime is when the next pod is created. It is empty unless the operator backs off.
	// +optional
	NextStartTime *metav1.Time `json:"nextStartTime,omitempty"`
	// LastTermination is the end of the most recent pod that ended.
	// +optional
	LastTermination *LastTermination `json:"lastTermination,omitempty"`
	// History are the ends of the last 10 pods, the most recent first.
	// +optional
	// +listType=atomic
	History []Termination `json:"history,omitempty"`
}

// Termination is the end of one pod.
type Termination struct {
	// PodUID is the UID of the pod.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`
	// Reason is why the pod ended, for example OOMKilled, Evicted or Deleted.
	// +optional
	Reason string `json:"reason,omitempty"`
	// ExitCode is the exit code of the container. It is absent if it is unknown.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// FinishedAt is when the container ended, or when the operator saw that the pod ends.
	// +optional
	FinishedAt metav1.Time `json:"finishedAt,omitempty,omitzero"`
}

// LastTermination is the end of the most recent pod, with the message.
type LastTermination struct {
	Termination `json:",inline"`

	// Message says more about the end of the pod, in at most 256 bytes.
	// +optional
	Message string `json:"message,omitempty"`
}

// Phase is what is going on, in one word. It is for people; programs should read the conditions.
type Phase string

// The phases.
const (
	// PhasePending means that no container runs yet, without a deliberate delay.
	PhasePending Phase = "Pending"
	// PhaseRunning means that the container runs. Whether it is ready is the condition Ready.
	PhaseRunning Phase = "Running"
	// PhaseBackingOff means that the next start is delayed, because earlier ones ended soon.
	PhaseBackingOff Phase = "BackingOff"
	// PhaseSuspended means that the container is stopped, or being stopped, because spec.suspend is true.
	PhaseSuspended Phase = "Suspended"
	// PhaseBlocked means that a foreign pod has the name of the pod.
	PhaseBlocked Phase = "Blocked"
	// PhaseFailed means that the API server rejects the pod.
	PhaseFailed Phase = "Failed"
)
