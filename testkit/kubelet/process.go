package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProcessGate is the readiness gate of a pod with a real process for one of its containers. The caller runs the process
// and reports its state by Report. Such a pod is not Ready before the process is.
const ProcessGate corev1.PodConditionType = "testkit.homeostat.dev/process"

// A ProcessState is the state of the process that runs for a container of a pod.
type ProcessState struct {
	// Container is the container's name.
	Container string
	// Ready means that the process runs and its readiness probe succeeds.
	Ready bool
	// Waiting is the reason for the absence of a process, for example CrashLoopBackOff; empty if it runs.
	Waiting string
	// Message explains why the process is not Ready.
	Message string
	// Restarts counts the restarts, including a pending one.
	Restarts int32
	// ExitCode is the exit code of the previous process, if there was one.
	ExitCode int32
}

// Report writes the status that a kubelet would report for such a process to a pod with a ProcessGate. It skips a pod
// that has ended or no longer exists.
func (k *Kubelet) Report(ctx context.Context, pod *corev1.Pod, p ProcessState) error {
	return k.updateOne(ctx, pod, func(pod *corev1.Pod, now metav1.Time) {
		for i := range pod.Status.ContainerStatuses {
			if pod.Status.ContainerStatuses[i].Name == p.Container {
				p.write(&pod.Status.ContainerStatuses[i], now)
			}
		}
		if p.Ready {
			// The stages derive the rest of the status.
			setCondition(pod, ProcessGate, corev1.ConditionTrue, "ProcessReady", "", now)
			return
		}
		reason := p.Waiting
		if reason == "" {
			reason = "ProcessNotReady"
		}
		setCondition(pod, ProcessGate, corev1.ConditionFalse, reason, p.Message, now)
		notReady(pod, now, "ContainersNotReady")
	})
}

func (p *ProcessState) write(status *corev1.ContainerStatus, now metav1.Time) {
	if p.Restarts > status.RestartCount {
		status.LastTerminationState = corev1.ContainerState{Terminated: terminated(status, p.ExitCode, now)}
		status.ContainerID = fmt.Sprintf("%s-%d", status.ContainerID, p.Restarts)
	}
	status.RestartCount = p.Restarts
	status.Started = new(p.Waiting == "")
	if !p.Ready {
		status.Ready = false
	}
	switch {
	case p.Waiting != "":
		status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: p.Waiting, Message: p.Message}}
	case status.State.Running == nil:
		status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	}
}
