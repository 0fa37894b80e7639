package policy

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The reasons of a living pod without a running container.
const (
	ReasonStarting          = "Starting"
	ReasonUnschedulable     = "Unschedulable"
	ReasonImagePullBackOff  = "ImagePullBackOff"
	ReasonCrashLoopBackOff  = "CrashLoopBackOff"
	ReasonContainerNotReady = "ContainerNotReady"
	ReasonPodNotReady       = "PodNotReady"
	ReasonUpdating          = "Updating"
)

// podState is the state of a living pod.
type podState struct {
	running bool
	since   time.Time // start of the container, if it runs
	// reason and message explain a container that is not running and ready; both are empty otherwise.
	reason, message string
}

// podStateOf describes a living pod. The texts are the same for the same state: a pod that cannot start for hours must not
// change the status with every attempt.
func podStateOf(pod *corev1.Pod, image string) podState {
	if pod.Spec.NodeName == "" {
		return unscheduled(pod)
	}
	c := containerStatus(pod)
	switch {
	case c == nil:
		return starting(pod)
	case c.State.Running != nil:
		return running(pod, c)
	case c.State.Terminated != nil:
		return podState{reason: ReasonCrashLoopBackOff, message: crashLoopMessage(pod, c.State.Terminated)}
	default:
		return waiting(pod, c, image)
	}
}

func unscheduled(pod *corev1.Pod) podState {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != "" {
			return podState{reason: ReasonUnschedulable, message: truncate("No node takes the pod: " + c.Message)}
		}
	}
	return podState{reason: ReasonStarting, message: fmt.Sprintf("Pod %s waits for a node.", pod.Name)}
}

func starting(pod *corev1.Pod) podState {
	return podState{reason: ReasonStarting, message: fmt.Sprintf("Node %s starts pod %s.", pod.Spec.NodeName, pod.Name)}
}

func running(pod *corev1.Pod, c *corev1.ContainerStatus) podState {
	s := podState{running: true, since: c.State.Running.StartedAt.Time}
	switch {
	case pod.Status.ObservedGeneration != 0 && pod.Status.ObservedGeneration < pod.Generation:
		s.reason = ReasonUpdating
		s.message = fmt.Sprintf("Node %s has not taken over the latest change of pod %s.", pod.Spec.NodeName, pod.Name)
	case !c.Ready:
		s.reason = ReasonContainerNotReady
		s.message = "The container runs and is not ready: see its startup and readiness probes."
	case !ready(pod):
		s.reason = ReasonPodNotReady
		s.message = fmt.Sprintf("The container was ready when node %s spoke last, but the pod is not: the node may not"+
			" answer any more.", pod.Spec.NodeName)
	}
	return s
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// waiting translates the waiting reason of the container. Messages of the node are left out unless the specification alone
// determines them: those about images contain the responses of a registry.
func waiting(pod *corev1.Pod, c *corev1.ContainerStatus, image string) podState {
	var w corev1.ContainerStateWaiting
	if c.State.Waiting != nil {
		w = *c.State.Waiting
	}
	switch w.Reason {
	case "", "ContainerCreating", "PodInitializing":
		return starting(pod)
	case "ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
		return podState{reason: ReasonImagePullBackOff, message: fmt.Sprintf("Image %s cannot be pulled: check spec.image"+
			" and spec.imagePullSecrets; `kubectl describe pod %s` shows what the registry says.", image, pod.Name)}
	case "InvalidImageName":
		return podState{reason: w.Reason, message: fmt.Sprintf("%q is no image reference: correct spec.image.", image)}
	case "ErrImageNeverPull":
		return podState{reason: w.Reason, message: fmt.Sprintf("Image %s is not on node %s, and spec.imagePullPolicy is "+
			"Never.", image, pod.Spec.NodeName)}
	case "CrashLoopBackOff":
		return podState{reason: ReasonCrashLoopBackOff, message: crashLoopMessage(pod, c.LastTerminationState.Terminated)}
	case "CreateContainerConfigError":
		return podState{reason: w.Reason, message: truncate("The container cannot be configured: " + w.Message)}
	default:
		reason := w.Reason
		if !isReason(reason) {
			reason = ReasonStarting
		}
		return podState{reason: reason, message: fmt.Sprintf("Node %s cannot start the container (%s): "+
			"`kubectl describe pod %s` shows why.", pod.Spec.NodeName, reason, pod.Name)}
	}
}

// crashLoopMessage describes a container that the node keeps restarting.
func crashLoopMessage(pod *corev1.Pod, last *corev1.ContainerStateTerminated) string {
	how := ""
	if last != nil && isReason(last.Reason) {
		how = fmt.Sprintf(", last with %s (exit code %d)", last.Reason, last.ExitCode)
	}
	return fmt.Sprintf("The container keeps ending%s; the node restarts it after a growing pause. "+
		"`kubectl logs --previous %s` shows what it said.", how, pod.Name)
}
