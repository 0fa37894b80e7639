package policy

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// The conditions of this package. The SDK writes Ready, Reconciling and Stalled.
const (
	// ConditionPodRunning is True while the container runs.
	ConditionPodRunning = "PodRunning"
	// ConditionBackingOff is True while the next start is delayed, by the operator or, inside the pod, by its node.
	ConditionBackingOff = "BackingOff"
)

// More reasons of these conditions.
const (
	ReasonRunning     = "Running"
	ReasonBackingOff  = "BackingOff"
	ReasonNoDelay     = "NoDelay"
	ReasonTerminating = "Terminating"
	// ReasonPodNameConflict is the reason of Ready if a foreign pod has the name of ours. ReasonPodRejected is the reason
	// if the API server rejects our pod. Next reads both from the Ready condition of the last reconcile.
	ReasonPodNameConflict = "PodNameConflict"
	ReasonPodRejected     = "PodRejected"
)

// report sets the phase, the conditions, and the reason and message of the decision.
func (ev *evaluation) report() {
	ev.status.Phase = ev.explain()
	switch {
	case ev.state.running:
		conditions.Set(ev.ic, ConditionPodRunning, metav1.ConditionTrue, ReasonRunning, "")
	case ev.createFailure != nil:
		conditions.Set(ev.ic, ConditionPodRunning, metav1.ConditionFalse, ev.createFailure.Reason, ev.createFailure.Message)
	default:
		conditions.Set(ev.ic, ConditionPodRunning, metav1.ConditionFalse, ev.decision.Reason, ev.decision.Message)
	}
	if ev.status.Phase == v1alpha1.PhaseBackingOff {
		conditions.Set(ev.ic, ConditionBackingOff, metav1.ConditionTrue, ev.decision.Reason, ev.decision.Message)
	} else {
		conditions.Set(ev.ic, ConditionBackingOff, metav1.ConditionFalse, ReasonNoDelay, "")
	}
}

// explain returns the phase and sets the reason and message of the decision.
func (ev *evaluation) explain() v1alpha1.Phase {
	switch {
	case ev.ic.Spec.Suspend:
		return ev.setReason(v1alpha1.PhaseSuspended, ReasonSuspended, ev.suspendedMessage())
	case ev.nodeLost:
		return ev.setReason(v1alpha1.PhasePending, ReasonNodeLost, ev.nodeLostMessage())
	case ev.untilNextStart() > 0:
		return ev.setReason(v1alpha1.PhaseBackingOff, ReasonBackingOff, ev.backoffMessage())
	case ev.pod == nil:
		return ev.explainMissingPod()
	case ev.decision.Want != Run:
		return ev.setReason(v1alpha1.PhasePending, ReasonTerminating, fmt.Sprintf(
			"Pod %s is ending (%s); the next one starts when it is gone.", ev.pod.Name, ev.status.LastTermination.Reason))
	case ev.state.running:
		return ev.setReason(v1alpha1.PhaseRunning, ev.state.reason, ev.state.message)
	case ev.state.reason == ReasonCrashLoopBackOff:
		return ev.setReason(v1alpha1.PhaseBackingOff, ev.state.reason, ev.state.message)
	default:
		return ev.setReason(v1alpha1.PhasePending, ev.state.reason, ev.state.message)
	}
}

func (ev *evaluation) setReason(phase v1alpha1.Phase, reason, message string) v1alpha1.Phase {
	ev.decision.Reason = reason
	ev.decision.Message = message
	return phase
}

// explainMissingPod explains a pod that should exist and does not. The Ready condition has the result of the last attempt
// to create it. The decision does not repeat that, because the next attempt may succeed.
func (ev *evaluation) explainMissingPod() v1alpha1.Phase {
	phase := ev.setReason(v1alpha1.PhasePending, ReasonStarting, "The pod is being created.")
	ready := conditions.Get(ev.ic, conditions.Ready)
	if ready == nil || ready.ObservedGeneration != ev.ic.Generation {
		return phase
	}
	switch ready.Reason {
	case ReasonPodNameConflict:
		phase = v1alpha1.PhaseBlocked
		ev.createFailure = ready.DeepCopy()
	case ReasonPodRejected:
		phase = v1alpha1.PhaseFailed
		ev.createFailure = ready.DeepCopy()
	}
	return phase
}

func (ev *evaluation) suspendedMessage() string {
	switch {
	case ev.nodeLost:
		return ev.nodeLostMessage()
	case ev.pod != nil:
		return "The container is being stopped, because spec.suspend is true."
	}
	return "The container is stopped, because spec.suspend is true."
}

func (ev *evaluation) nodeLostMessage() string {
	pod, node := ev.pod.Name, ev.pod.Spec.NodeName
	if ev.decision.Want == ForceDelete {
		return fmt.Sprintf("Node %s does not confirm the end of pod %s, which is given up, because spec.nodeLost is "+
			"Replace.", node, pod)
	}
	return fmt.Sprintf("Node %s does not confirm the end of pod %s, so its container may still run. If the node is "+
		"shut down for good, delete the Node object or taint it with node.kubernetes.io/out-of-service.", node, pod)
}

func (ev *evaluation) backoffMessage() string {
	next := ev.status.NextStartTime.UTC().Format(time.RFC3339)
	last := ev.status.LastTermination
	if last == nil || last.PodUID != ev.status.PodUID || endedByDeletion(last.Reason) {
		return fmt.Sprintf("%d pods were deleted within a minute; the next one starts at %s.", deletionBurst+1, next)
	}
	how := last.Reason
	if last.ExitCode != nil {
		how = fmt.Sprintf("%s, exit code %d", how, *last.ExitCode)
	}
	if n := ev.status.ConsecutiveFailures; n > 1 {
		return fmt.Sprintf("The last %d pods ended by themselves (%s); the next one starts at %s.", n, how, next)
	}
	return fmt.Sprintf("The pod ended by itself (%s); the next one starts at %s.", how, next)
}
