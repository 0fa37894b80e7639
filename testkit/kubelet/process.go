package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ProcessGate is the readiness gate of a pod that is not only simulated: somebody runs a process for one of its containers,
// and says by Report how that fares. Such a pod is not Ready before the process is.
const ProcessGate corev1.PodConditionType = "testkit.homeostat.dev/process"

// A Process is how the process fares that stands for a container of a pod.
type Process struct {
	// Container is its name.
	Container string
	// Ready says that the process runs, and that its readiness probe succeeds.
	Ready bool
	// Waiting is the reason why there is no process, for example CrashLoopBackOff; empty if there is one.
	Waiting string
	// Message says more about why it is not Ready.
	Message string
	// Restarts counts how often it has been started again, or is going to be.
	Restarts int32
	// ExitCode is that of the process that ran before, if there was one.
	ExitCode int32
}

// Report writes into the status of a pod with a ProcessGate what a kubelet would for such a process. A pod that is gone or
// has ended is none of its business.
func (k *Kubelet) Report(ctx context.Context, pod *corev1.Pod, p Process) error {
	return k.updateOne(ctx, pod, func(pod *corev1.Pod, now metav1.Time) {
		for i := range pod.Status.ContainerStatuses {
			if pod.Status.ContainerStatuses[i].Name == p.Container {
				p.write(&pod.Status.ContainerStatuses[i], now)
			}
		}
		if p.Ready {
			// The stages conclude the rest from that.
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

func (p *Process) write(status *corev1.ContainerStatus, now metav1.Time) {
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
