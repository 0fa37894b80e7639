//go:build linux

package runner

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// signalOffset plus the signal is the exit code of a killed process.
const signalOffset = 128

// initialStatus returns the status of a pod before its first container.
func initialStatus(object *corev1.Pod) corev1.PodStatus {
	now := metav1.Now()
	s := corev1.PodStatus{Phase: corev1.PodPending, StartTime: &now, QOSClass: object.Status.QOSClass}
	reason := "ContainerCreating"
	if len(object.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	state := func(c corev1.Container) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, State: waiting(reason, ""), Started: new(false),
		}
	}
	for _, c := range object.Spec.InitContainers {
		s.InitContainerStatuses = append(s.InitContainerStatuses, state(c))
	}
	for _, c := range object.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, state(c))
	}
	return s
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

// terminated returns the state of a process for which Wait returned err.
func terminated(err error, began metav1.Time) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{StartedAt: began, FinishedAt: metav1.Now(), Reason: "Completed"}
	if err == nil {
		return t
	}
	t.Reason = "Error"
	t.ExitCode = 1
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.ExitCode = int32(exit.ExitCode()) //nolint:gosec // less than 256
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			t.ExitCode = signalOffset + int32(status.Signal()) //nolint:gosec // less than 128
		}
	}
	return t
}

// summarize derives the phase and the conditions from the states of the containers. The argument completed means that no
// container is restarted.
func summarize(s *corev1.PodStatus, completed bool) {
	for i := range s.InitContainerStatuses {
		s.InitContainerStatuses[i].Ready = succeeded(s.InitContainerStatuses[i])
	}
	initialized := !slices.ContainsFunc(s.InitContainerStatuses, func(c corev1.ContainerStatus) bool { return !succeeded(c) })
	begun := slices.ContainsFunc(s.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Waiting == nil || c.RestartCount > 0 || c.LastTerminationState.Terminated != nil
	})
	all := slices.Concat(s.InitContainerStatuses, s.ContainerStatuses)
	ready, reason := true, ""
	for _, c := range s.ContainerStatuses {
		ready = ready && c.Ready
	}
	if !ready {
		reason = "ContainersNotReady"
	}
	switch {
	case completed && !slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool { return !succeeded(c) }):
		s.Phase = corev1.PodSucceeded
		reason = "PodCompleted"
	case completed:
		s.Phase = corev1.PodFailed
		reason = "PodFailed"
	case begun:
		s.Phase = corev1.PodRunning
	default:
		s.Phase = corev1.PodPending
	}
	setCondition(s, corev1.PodReadyToStartContainers, s.PodIP != "" && !completed, "")
	setCondition(s, corev1.PodInitialized, initialized, "")
	setCondition(s, corev1.ContainersReady, ready, reason)
	setCondition(s, corev1.PodReady, ready, reason)
}

// statusPatch returns a strategic merge patch that keeps conditions of other controllers.
func statusPatch(uid types.UID, s *corev1.PodStatus) ([]byte, error) {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil {
		return nil, err
	}
	conditions := make([]any, 0, len(s.Conditions))
	for _, c := range s.Conditions {
		// An explicit null removes an old reason.
		said := map[string]any{"type": c.Type, "status": c.Status, "reason": nil, "lastTransitionTime": c.LastTransitionTime}
		if c.Reason != "" {
			said["reason"] = c.Reason
		}
		conditions = append(conditions, said)
	}
	status["conditions"] = conditions
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": status})
}

func succeeded(c corev1.ContainerStatus) bool {
	return c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
}

func setCondition(s *corev1.PodStatus, kind corev1.PodConditionType, is bool, reason string) {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.Now()}
	if is {
		c.Status = corev1.ConditionTrue
	}
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		s.Conditions = append(s.Conditions, c)
		return
	}
	if s.Conditions[i].Status == c.Status {
		c.LastTransitionTime = s.Conditions[i].LastTransitionTime
	}
	s.Conditions[i] = c
}
