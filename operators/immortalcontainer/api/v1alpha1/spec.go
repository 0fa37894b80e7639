package v1alpha1

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ImmortalContainerSpec is the desired state of an ImmortalContainer. A field that a pod also has means the same as there.
type ImmortalContainerSpec struct {
	// Image is the container image, for example nginx:latest. It is a reference as container registries and nodes define it:
	// [registry[:port]/]name[:tag][@digest].
	// +required
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`
	// ImagePullPolicy is the policy for pulling the image: Always, IfNotPresent or Never.
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
	// WorkingDir is the working directory of the command. The default is that of the image.
	// +optional
	WorkingDir string `json:"workingDir,omitempty"`
	// Env lists environment variables.
	// +optional
	// +listType=map
	// +listMapKey=name
	Env []corev1.EnvVar `json:"env,omitempty"`
	// EnvFrom lists ConfigMaps and Secrets with environment variables.
	// +optional
	// +listType=atomic
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`
	// Ports are the ports of the container.
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
	// LivenessProbe is the check after whose failure the node restarts the container inside its pod.
	// +optional
	LivenessProbe *corev1.Probe `json:"livenessProbe,omitempty"`
	// ReadinessProbe is the check of whether the container can serve requests. The condition Ready follows it.
	// +optional
	ReadinessProbe *corev1.Probe `json:"readinessProbe,omitempty"`
	// StartupProbe delays the other two probes until it succeeds.
	// +optional
	StartupProbe *corev1.Probe `json:"startupProbe,omitempty"`
	// Lifecycle are the hooks that the node runs after the container starts and before it stops.
	// +optional
	Lifecycle *corev1.Lifecycle `json:"lifecycle,omitempty"`
	// SecurityContext is the security context of the container.
	// +optional
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`

	PodSettings `json:",inline"`
	Immortality `json:",inline"`
}

// PodSettings are the settings of the pod around the container.
type PodSettings struct {
	// PodSecurityContext is the security context of the pod.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`
	// Volumes are the volumes of the pod, which volumeMounts refer to.
	// +optional
	// +listType=map
	// +listMapKey=name
	Volumes []corev1.Volume `json:"volumes,omitempty"`
	// ImagePullSecrets lists Secrets with the credentials for pulling the image.
	// +optional
	// +listType=map
	// +listMapKey=name
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// ServiceAccountName is the service account of the pod. The default is the service account named default.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// NodeSelector restricts the pod to nodes with these labels.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations allow the pod on nodes with matching taints. Tolerations of node.kubernetes.io/unreachable and
	// node.kubernetes.io/not-ready set the time after which a pod on a lost node is evicted. The default is 5 minutes.
	// +optional
	// +listType=atomic
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// Affinity are the scheduling constraints of the pod.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`
	// PriorityClassName is the priority class of the pod.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
	// TerminationGracePeriodSeconds is the time between the request to stop and the kill of the container. The default is 30.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`
}

// Immortality has the settings of restarts.
type Immortality struct {
	// Restart is the backoff between pods that end by themselves.
	// +optional
	// +kubebuilder:default={}
	Restart Restart `json:"restart,omitempty,omitzero"`
	// NodeLost is the policy for a pod whose node does not respond. Wait creates a new pod after the cluster has confirmed that
	// the old container has ended. Replace force deletes the old pod and creates a new one: two containers run at the same time
	// if the node is still running without a connection.
	// +optional
	// +kubebuilder:default=Wait
	NodeLost NodeLostPolicy `json:"nodeLost,omitempty"`
	// UpdateStrategy is the strategy for a new image. InPlaceIfPossible restarts the container inside its pod. Recreate
	// replaces the pod. Other changes of the pod always replace it.
	// +optional
	// +kubebuilder:default=InPlaceIfPossible
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty"`
	// Suspend stops the container until it is false again. The count of starts is kept.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// DeletionPolicy applies to the pod when the ImmortalContainer is deleted. Delete deletes the pod. Orphan leaves it running
	// without an owner.
	// +optional
	// +kubebuilder:default=Delete
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// Restart is an exponential backoff: it begins with InitialBackoff and doubles after each pod up to MaxBackoff. A change of
// the spec ends it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.initialBackoff) || !has(self.maxBackoff) || !self.initialBackoff.matches('^([0-9]{1,5}([.][0-9]{1,9})?(h|m|s|ms)){1,4}$') || !self.maxBackoff.matches('^([0-9]{1,5}([.][0-9]{1,9})?(h|m|s|ms)){1,4}$') || duration(self.initialBackoff) <= duration(self.maxBackoff)",message="maxBackoff is shorter than initialBackoff: raise spec.restart.maxBackoff (default 5m) or lower spec.restart.initialBackoff (default 1s)"
type Restart struct {
	// InitialBackoff is the backoff after the first pod that ended by itself, from 1s to 1h.
	// +optional
	// +kubebuilder:default="1s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,9})?(h|m|s|ms)){1,4}$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="spec.restart.initialBackoff must be a duration from 1s to 1h, for example 1s, 90s or 1m30s"
	InitialBackoff metav1.Duration `json:"initialBackoff,omitempty,omitzero"`
	// MaxBackoff is the maximum backoff, from 1s to 24h.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}([.][0-9]{1,9})?(h|m|s|ms)){1,4}$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="spec.restart.maxBackoff must be a duration from 1s to 24h, for example 30s, 5m or 1h30m"
	MaxBackoff metav1.Duration `json:"maxBackoff,omitempty,omitzero"`
	// ResetAfter is the time that a container must run without a restart to reset the backoff to InitialBackoff, from 1s to
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

// NodeLostPolicy is a policy for a pod whose node does not respond.
//
// +kubebuilder:validation:Enum=Wait;Replace
type NodeLostPolicy string

// The policies for a lost node.
const (
	// NodeLostWait creates a new pod after the cluster has confirmed that the old container has ended.
	NodeLostWait NodeLostPolicy = "Wait"
	// NodeLostReplace force deletes a pod that the control plane has evicted from its node and that does not end.
	NodeLostReplace NodeLostPolicy = "Replace"
)

// UpdateStrategy is a strategy for a new image.
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

// DeletionPolicy is a policy for the pod of a deleted ImmortalContainer.
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
