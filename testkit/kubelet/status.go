package kubelet

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// terminate ends one container permanently.
func terminate(status *corev1.ContainerStatus, exitCode int32, now metav1.Time) {
	status.State = corev1.ContainerState{Terminated: terminated(status, exitCode, now)}
	status.Ready = false
	status.Started = new(false)
}

// restart ends one container and starts it again. The stages decide when it becomes ready.
func restart(status *corev1.ContainerStatus, exitCode int32, now metav1.Time) {
	status.LastTerminationState = corev1.ContainerState{Terminated: terminated(status, exitCode, now)}
	status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	status.RestartCount++
	status.ContainerID = fmt.Sprintf("%s-%d", status.ContainerID, status.RestartCount)
	status.Ready = false
	status.Started = new(true)
}

func terminated(status *corev1.ContainerStatus, exitCode int32, now metav1.Time) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{
		ExitCode: exitCode, Reason: "Error", StartedAt: now, FinishedAt: now, ContainerID: status.ContainerID,
	}
	if exitCode == 0 {
		t.Reason = "Completed"
	}
	if r := status.State.Running; r != nil {
		t.StartedAt = r.StartedAt
	}
	return t
}

// notReady sets the conditions of the containers and of the pod to not ready.
func notReady(pod *corev1.Pod, now metav1.Time, reason string) {
	message := ""
	if reason == "ContainersNotReady" {
		var names []string
		for i := range pod.Status.ContainerStatuses {
			if !pod.Status.ContainerStatuses[i].Ready {
				names = append(names, pod.Status.ContainerStatuses[i].Name)
			}
		}
		message = fmt.Sprintf("containers with unready status: %v", names)
	}
	setCondition(pod, corev1.ContainersReady, corev1.ConditionFalse, reason, message, now)
	setCondition(pod, corev1.PodReady, corev1.ConditionFalse, reason, message, now)
}

// reassess triggers the stages for the pod: they apply if a running container is not ready and the status changes.
func reassess(pod *corev1.Pod) {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if i >= 0 && pod.Status.Conditions[i].Status != corev1.ConditionTrue {
		pod.Status.Conditions[i].Message = "readiness is being reassessed"
	}
}

func setCondition(
	pod *corev1.Pod, conditionType corev1.PodConditionType, status corev1.ConditionStatus, reason, message string,
	now metav1.Time,
) {
	c := corev1.PodCondition{
		Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: now,
		ObservedGeneration: pod.Generation,
	}
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == conditionType })
	if i < 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, c)
		return
	}
	if before := pod.Status.Conditions[i]; before.Status == status {
		c.LastTransitionTime = before.LastTransitionTime
	}
	pod.Status.Conditions[i] = c
}
