package life

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// The conditions that this package writes. Ready, Reconciling and Stalled are the SDK's.
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
	// ReasonPodNameConflict is the reason of Ready when a pod of somebody else has the name of ours, and
	// ReasonPodRejected when the API server refuses our pod. Next reads them in the Ready condition of the last pass.
	ReasonPodNameConflict = "PodNameConflict"
	ReasonPodRejected     = "PodRejected"
)

// report writes the phase, the conditions and the explanation of the step.
func (l *look) report() {
	l.status.Phase = l.explain()
	switch {
	case l.sight.running:
		conditions.Set(l.ic, ConditionPodRunning, metav1.ConditionTrue, ReasonRunning, "")
	case l.obstacle != nil:
		conditions.Set(l.ic, ConditionPodRunning, metav1.ConditionFalse, l.obstacle.Reason, l.obstacle.Message)
	default:
		conditions.Set(l.ic, ConditionPodRunning, metav1.ConditionFalse, l.step.Reason, l.step.Message)
	}
	if l.status.Phase == v1alpha1.PhaseBackingOff {
		conditions.Set(l.ic, ConditionBackingOff, metav1.ConditionTrue, l.step.Reason, l.step.Message)
	} else {
		conditions.Set(l.ic, ConditionBackingOff, metav1.ConditionFalse, ReasonNoDelay, "")
	}
}

// explain returns the phase and sets the reason and message of the step.
func (l *look) explain() v1alpha1.Phase {
	switch {
	case l.ic.Spec.Suspend:
		return l.because(v1alpha1.PhaseSuspended, ReasonSuspended, l.suspended())
	case l.lost:
		return l.because(v1alpha1.PhasePending, ReasonNodeLost, l.abandoned())
	case l.delay() > 0:
		return l.because(v1alpha1.PhaseBackingOff, ReasonBackingOff, l.delayed())
	case l.pod == nil:
		return l.create()
	case l.step.Want != Run:
		return l.because(v1alpha1.PhasePending, ReasonTerminating, fmt.Sprintf(
			"Pod %s is ending (%s); the next one starts when it is gone.", l.pod.Name, l.status.LastTermination.Reason))
	case l.sight.running:
		return l.because(v1alpha1.PhaseRunning, l.sight.reason, l.sight.message)
	case l.sight.reason == ReasonCrashLoopBackOff:
		return l.because(v1alpha1.PhaseBackingOff, l.sight.reason, l.sight.message)
	default:
		return l.because(v1alpha1.PhasePending, l.sight.reason, l.sight.message)
	}
}

func (l *look) because(phase v1alpha1.Phase, reason, message string) v1alpha1.Phase {
	l.step.Reason, l.step.Message = reason, message
	return phase
}

// create explains a pod that does not exist although it should. What became of the last attempt to create it is known
// from the Ready condition that the attempt left. The step says nothing of it, because the next attempt may succeed.
func (l *look) create() v1alpha1.Phase {
	phase := l.because(v1alpha1.PhasePending, ReasonStarting, "The pod is being created.")
	ready := conditions.Get(l.ic, conditions.Ready)
	if ready == nil || ready.ObservedGeneration != l.ic.Generation {
		return phase
	}
	switch ready.Reason {
	case ReasonPodNameConflict:
		phase, l.obstacle = v1alpha1.PhaseBlocked, ready.DeepCopy()
	case ReasonPodRejected:
		phase, l.obstacle = v1alpha1.PhaseFailed, ready.DeepCopy()
	}
	return phase
}

func (l *look) suspended() string {
	switch {
	case l.lost:
		return l.abandoned()
	case l.pod != nil:
		return "The container is being stopped, because spec.suspend is true."
	}
	return "The container is stopped, because spec.suspend is true."
}

func (l *look) abandoned() string {
	pod, node := l.pod.Name, l.pod.Spec.NodeName
	if l.step.Want == Abandon {
		return fmt.Sprintf("Node %s does not confirm the end of pod %s, which is given up, because spec.nodeLost is "+
			"Replace.", node, pod)
	}
	return fmt.Sprintf("Node %s does not confirm the end of pod %s, so its container may still run. If the node is "+
		"shut down for good, delete the Node object or taint it with node.kubernetes.io/out-of-service.", node, pod)
}

func (l *look) delayed() string {
	next := l.status.NextStartTime.UTC().Format(time.RFC3339)
	last := l.status.LastTermination
	if last == nil || last.PodUID != l.status.PodUID || takenAway(last.Reason) {
		return fmt.Sprintf("%d pods were deleted within a minute; the next one starts at %s.", deletionBurst+1, next)
	}
	how := last.Reason
	if last.ExitCode != nil {
		how = fmt.Sprintf("%s, exit code %d", how, *last.ExitCode)
	}
	if n := l.status.ConsecutiveFailures; n > 1 {
		return fmt.Sprintf("The last %d pods ended by themselves (%s); the next one starts at %s.", n, how, next)
	}
	return fmt.Sprintf("The pod ended by itself (%s); the next one starts at %s.", how, next)
}
