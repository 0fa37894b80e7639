package v1alpha1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ImmortalContainerSpec says what to run and how to keep it running. The fields that a pod has too mean what they mean
// there.
type ImmortalContainerSpec struct {
	// Image is the container image to keep running, for example nginx:latest. It is a reference as container registries
	// and nodes define it: [registry[:port]/]name[:tag][@digest].
	// +required
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`
	// ImagePullPolicy says when the node pulls the image: Always, IfNotPresent or Never.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// Command replaces the entry point of the image.
	// +optional
	// +listType=atomic
	Command []string `json:"command,omitempty"`
	// Args are the arguments of the command, or of the image's entry point.
	// +optional
	// +listType=atomic
	Args []string `json:"args,omitempty"`
	// WorkingDir is the directory that the command starts in. The default is the image's.
	// +optional
	WorkingDir string `json:"workingDir,omitempty"`
	// Env are environment variables.
	// +optional
	// +listType=map
	// +listMapKey=name
	Env []corev1.EnvVar `json:"env,omitempty"`
	// EnvFrom takes environment variables from ConfigMaps and Secrets.
	// +optional
	// +listType=atomic
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`
	// Ports are the ports that the container listens on.
	// +optional
	// +listType=map
	// +listMapKey=containerPort
	// +listMapKey=protocol
	Ports []corev1.ContainerPort `json:"ports,omitempty"`
	// Resources are the requests and limits of the container.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty,omitzero"`
	// VolumeMounts mount the volumes into the container.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`
	// LivenessProbe tells the node when to restart the container inside its pod.
	// +optional
	LivenessProbe *corev1.Probe `json:"livenessProbe,omitempty"`
	// ReadinessProbe tells whether the container can serve. The condition Ready follows it.
	// +optional
	ReadinessProbe *corev1.Probe `json:"readinessProbe,omitempty"`
	// StartupProbe holds back the other two probes until it succeeds.
	// +optional
	StartupProbe *corev1.Probe `json:"startupProbe,omitempty"`
	// Lifecycle are the hooks that the node runs after the container starts and before it stops.
	// +optional
	Lifecycle *corev1.Lifecycle `json:"lifecycle,omitempty"`
	// SecurityContext restricts the container.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`

	PodSettings `json:",inline"`
	Immortality `json:",inline"`
}

// PodSettings are the settings of the pod around the container.
type PodSettings struct {
	// PodSecurityContext restricts the pod.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
	// Volumes are the volumes that volumeMounts may name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Volumes []corev1.Volume `json:"volumes,omitempty"`
	// ImagePullSecrets name the Secrets that hold the credentials for pulling the image.
	// +optional
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// ServiceAccountName is the identity of the container towards the API server. The default is the namespace's
	// service account called default.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// NodeSelector restricts the pod to nodes with these labels.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations let the pod run on nodes with matching taints. Those for node.kubernetes.io/unreachable and
	// node.kubernetes.io/not-ready say how soon a pod on a lost node is given up; the default is 5 minutes.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Affinity attracts the pod to nodes and to other pods, or keeps it away from them.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// PriorityClassName is the priority class of the pod.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// TerminationGracePeriodSeconds is how long the container may take to stop before it is killed. The default is 30.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
}

// Immortality says how the container is kept running.
type Immortality struct {
	// Restart says how long to wait before the next pod when pods keep ending by themselves.
	// +optional
	// +kubebuilder:default={}
	Restart Restart `json:"restart,omitempty,omitzero"`
	// NodeLost says what to do with a pod whose node does not answer any more. Wait: start a new pod only when the
	// cluster knows that the old container has ended. Replace: give the old pod up and start a new one; two containers
	// run at the same time if the node still runs but is cut off.
	// +optional
	// +kubebuilder:default=Wait
	NodeLost NodeLostPolicy `json:"nodeLost,omitempty"`
	// UpdateStrategy says what a new image does to the running pod. InPlaceIfPossible: the container restarts inside
	// its pod. Recreate: the pod is replaced. Any other change of the pod always replaces it.
	// +optional
	// +kubebuilder:default=InPlaceIfPossible
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty"`
	// Suspend stops the container until it is false again. The count of starts is kept.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// DeletionPolicy says what becomes of the pod when the ImmortalContainer is deleted. Delete: it goes too. Orphan:
	// it stays and runs on as a plain pod.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// Restart is an exponential backoff: the first wait is InitialBackoff, each further one is twice as long as the one
// before it, up to MaxBackoff. A change of the specification ends it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.initialBackoff) || !has(self.maxBackoff) || !self.initialBackoff.matches('^([0-9]{1,5}([.][0-9]{1,9})?(h|m|s|ms)){1,4}$') || !self.maxBackoff.matches('^([0-9]{1,5}([.][0-9]{1,9})?(h|m|s|ms)){1,4}$') || duration(self.initialBackoff) <= duration(self.maxBackoff)",message="maxBackoff is shorter than initialBackoff: raise spec.restart.maxBackoff (default 5m) or lower spec.restart.initialBackoff (default 1s)"
type Restart struct {
	// InitialBackoff is the wait after the first pod that ended by itself, from 1s to 1h.
	// +optional
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,9})?(h|m|s|ms)){1,4}$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="spec.restart.initialBackoff must be a duration from 1s to 1h, for example 1s, 90s or 1m30s"
	InitialBackoff metav1.Duration `json:"initialBackoff,omitempty,omitzero"`
	// MaxBackoff is the longest wait, from 1s to 24h.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,9})?(h|m|s|ms)){1,4}$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="spec.restart.maxBackoff must be a duration from 1s to 24h, for example 30s, 5m or 1h30m"
	MaxBackoff metav1.Duration `json:"maxBackoff,omitempty,omitzero"`
	// ResetAfter is how long a container must run without interruption to start over with InitialBackoff, from 1s to
	// 24h.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,9})?(h|m|s|ms)){1,4}$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="spec.restart.resetAfter must be a duration from 1s to 24h, for example 30s, 10m or 1h30m"
	ResetAfter metav1.Duration `json:"resetAfter,omitempty,omitzero"`
}

// The defaults of [Restart]. The API server writes them into every object.
const (
	DefaultInitialBackoff = time.Second
	DefaultMaxBackoff     = 5 * time.Minute
	DefaultResetAfter     = 10 * time.Minute
)

// NodeLostPolicy is what to do with a pod whose node does not answer any more.
//
// +kubebuilder:validation:Enum=Wait;Replace
type NodeLostPolicy string

// The policies for a lost node.
const (
	// NodeLostWait starts a new pod only when the cluster knows that the old container has ended.
	NodeLostWait NodeLostPolicy = "Wait"
	// NodeLostReplace force deletes a pod that the control plane removed from its node and that does not end.
	NodeLostReplace NodeLostPolicy = "Replace"
)

// UpdateStrategy is what a new image does to the running pod.
//
// +kubebuilder:validation:Enum=InPlaceIfPossible;Recreate
type UpdateStrategy string

// The update strategies.
const (
	// UpdateInPlaceIfPossible restarts the container inside its pod.
	UpdateInPlaceIfPossible UpdateStrategy = "InPlaceIfPossible"
	// UpdateRecreate replaces the pod.
	UpdateRecreate UpdateStrategy = "Recreate"
)

// DeletionPolicy is what becomes of the pod when its ImmortalContainer is deleted.
//
// +kubebuilder:validation:Enum=Delete;Orphan
type DeletionPolicy string

// The deletion policies.
const (
	// DeletionDelete deletes the pod.
	DeletionDelete DeletionPolicy = "Delete"
	// DeletionOrphan leaves the pod running, without an owner.
	DeletionOrphan DeletionPolicy = "Orphan"
)
