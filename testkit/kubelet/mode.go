package kubelet

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Mode is a state of pods. The zero Mode is not valid.
type Mode struct {
	name  string
	apply func(*corev1.Pod, metav1.Time)
}

// String returns the mode's name.
func (m Mode) String() string { return m.name }

var (
	// Succeeded ends all containers with exit code 0 and the pod with phase Succeeded, regardless of its restart
	// policy.
	Succeeded = ending("Succeeded", 0)
	// Failed ends all containers with exit code 1 and the pod with phase Failed, regardless of its restart policy.
	Failed = FailedWith(1)
	// CrashLoop leaves all containers waiting with reason CrashLoopBackOff. Their restart count rises after 1 s, then
	// at growing intervals, until the container gets another image, the pod is deleted, or Heal is called.
	CrashLoop = Mode{name: "CrashLoop", apply: enterCrashLoop}
	// Evicted emulates the eviction from a node that runs out of memory: phase Failed with reason Evicted, and the
	// condition DisruptionTarget.
	Evicted = Mode{name: "Evict", apply: func(pod *corev1.Pod, now metav1.Time) {
		evict(pod, now, "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ")
	}}
)

// FailedWith is Failed with another exit code. 137 is the code of a killed container, for example after it ran out of
// memory.
func FailedWith(exitCode int32) Mode {
	return ending("Failed", exitCode)
}

// ExitedWith ends all containers once, with this exit code, and follows the pod's restart policy: either the containers
// restart with a restart count higher by one, or the pod ends with phase Succeeded or Failed.
func ExitedWith(exitCode int32) Mode {
	return Mode{name: fmt.Sprintf("ExitedWith(%d)", exitCode), apply: func(pod *corev1.Pod, now metav1.Time) {
		policy := pod.Spec.RestartPolicy
		again := policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && exitCode != 0
		switch {
		case again:
			for i := range pod.Status.ContainerStatuses {
				restart(&pod.Status.ContainerStatuses[i], exitCode, now)
			}
			notReady(pod, now, "ContainersNotReady")
		case exitCode == 0:
			end(pod, corev1.PodSucceeded, exitCode, now)
		default:
			end(pod, corev1.PodFailed, exitCode, now)
		}
	}}
}

func ending(name string, exitCode int32) Mode {
	phase := corev1.PodFailed
	if name == "Succeeded" {
		phase = corev1.PodSucceeded
	} else {
		name = fmt.Sprintf("%s(%d)", name, exitCode)
	}
	return Mode{name: name, apply: func(pod *corev1.Pod, now metav1.Time) { end(pod, phase, exitCode, now) }}
}

// end ends the whole pod.
func end(pod *corev1.Pod, phase corev1.PodPhase, exitCode int32, now metav1.Time) {
	for i := range pod.Status.ContainerStatuses {
		terminate(&pod.Status.ContainerStatuses[i], exitCode, now)
	}
	for i := range pod.Status.InitContainerStatuses {
		if sidecar := &pod.Status.InitContainerStatuses[i]; sidecar.State.Running != nil {
			terminate(sidecar, 0, now)
		}
	}
	pod.Status.Phase = phase
	reason := "PodFailed"
	if phase == corev1.PodSucceeded {
		reason = "PodCompleted"
		setCondition(pod, corev1.PodInitialized, corev1.ConditionTrue, reason, "", now)
	}
	notReady(pod, now, reason)
}

func evict(pod *corev1.Pod, now metav1.Time, message string) {
	end(pod, corev1.PodFailed, killedExitCode, now)
	pod.Status.Reason = "Evicted"
	pod.Status.Message = message
	setCondition(pod, corev1.DisruptionTarget, corev1.ConditionTrue, corev1.PodReasonTerminationByKubelet, message, now)
}

func enterCrashLoop(pod *corev1.Pod, now metav1.Time) {
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if status.State.Waiting != nil { // only running containers crash
			continue
		}
		restart(status, 1, now)
		status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff",
			Message: fmt.Sprintf("back-off restarting failed container=%s pod=%s_%s(%s)",
				status.Name, pod.Name, pod.Namespace, pod.UID),
		}}
		status.Started = new(false)
	}
	notReady(pod, now, "ContainersNotReady")
}

func leaveCrashLoop(pod *corev1.Pod, now metav1.Time) {
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		if w := status.State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" {
			status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
			status.Started = new(true)
		}
	}
}
