package policy

import (
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The reasons in lastTermination and history. Other reasons are copied from the node, for example OOMKilled, Error or
// OutOfcpu.
const (
	// ReasonDeleted means that the pod was deleted through the API.
	ReasonDeleted = "Deleted"
	// ReasonDrained means that the pod was evicted through the API, as kubectl drain does.
	ReasonDrained = "Drained"
	// ReasonPreempted means that the pod was removed in favor of a pod with a higher priority.
	ReasonPreempted = "Preempted"
	// ReasonNodeLost means that the control plane removed the pod from its node: the node is gone, does not answer, or has
	// a taint that the pod does not tolerate.
	ReasonNodeLost = "NodeLost"
	// ReasonNodeShutdown means that the node was shut down gracefully.
	ReasonNodeShutdown = "NodeShutdown"
	// ReasonEvicted means that the node ran out of memory or disk space.
	ReasonEvicted = "Evicted"
	// ReasonCompleted and ReasonError mean that the pod ended with and without success.
	ReasonCompleted = "Completed"
	ReasonError     = "Error"
	// ReasonSuspended, ReasonSpecChanged and ReasonImageChanged mean that the operator ended the pod: for spec.suspend,
	// for a change that a running pod cannot take over, and for the update strategy.
	ReasonSuspended    = "Suspended"
	ReasonSpecChanged  = "SpecChanged"
	ReasonImageChanged = "ImageChanged"
)

// Intended reports whether the specification asked for the end of the pod.
func Intended(reason string) bool {
	switch reason {
	case ReasonSuspended, ReasonSpecChanged, ReasonImageChanged:
		return true
	default:
		return false
	}
}

// cause is the kind of a termination. It decides how soon the next pod starts.
type cause int

const (
	byItself cause = iota // by the container or its node: the next pod may end the same way
	byOthers              // by a deletion
)

// termination describes the end of a pod.
type termination struct {
	uid      types.UID
	cause    cause
	reason   string
	exitCode *int32
	at       time.Time
	ran      time.Duration // duration of the last run of the container, 0 if unknown
	message  string
}

// terminationOf reports whether the pod has ended or is terminating, and describes that. It uses only facts that cannot
// change any more, so that a later reconcile comes to the same result. The exit code of a container that was stopped by a
// deletion is no such fact: it is unknown at first, and it does not explain the deletion.
func terminationOf(pod *corev1.Pod, now time.Time) (termination, bool) {
	last := lastRun(pod)
	e := termination{uid: pod.UID, at: now, ran: runDuration(last)}
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if pod.DeletionTimestamp == nil && !ended {
		return e, false
	}
	if pod.DeletionTimestamp != nil {
		e.cause = byOthers
	}
	condition := disruption(pod)
	switch {
	case pod.Status.Reason != "":
		e.reason = nodeReason(pod.Status.Reason)
		e.message = pod.Status.Message
	case condition != nil && disruptionReasons[condition.Reason] != "":
		e.reason = disruptionReasons[condition.Reason]
		e.message = condition.Message
	case pod.DeletionTimestamp != nil:
		e.reason = ReasonDeleted
	default:
		e.fromContainer(pod, last)
	}
	return e, true
}

// lastRun returns the termination of the last run of the container, or nil if it is unknown.
func lastRun(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	c := containerStatus(pod)
	if c == nil || c.State.Terminated == nil || c.State.Terminated.Reason == "ContainerStatusUnknown" {
		return nil // ContainerStatusUnknown: the node lost the state and made up the exit code
	}
	return c.State.Terminated
}

// runDuration returns the duration of a run of the container, or 0 if it is unknown.
func runDuration(run *corev1.ContainerStateTerminated) time.Duration {
	if run == nil || run.StartedAt.IsZero() || run.FinishedAt.IsZero() {
		return 0
	}
	return run.FinishedAt.Sub(run.StartedAt.Time)
}

// fromContainer fills in the termination from the last run of the container.
func (e *termination) fromContainer(pod *corev1.Pod, last *corev1.ContainerStateTerminated) {
	e.reason = ReasonError
	if pod.Status.Phase == corev1.PodSucceeded {
		e.reason = ReasonCompleted
	}
	e.message = pod.Status.Message
	if last == nil {
		return
	}
	e.exitCode = new(last.ExitCode)
	if isReason(last.Reason) {
		e.reason = last.Reason
	}
	if last.Message != "" {
		e.message = last.Message
	}
	if !last.FinishedAt.IsZero() && last.FinishedAt.Time.Before(e.at) {
		e.at = last.FinishedAt.Time
	}
}

// disruptionReasons maps the reasons of the condition DisruptionTarget to ours.
var disruptionReasons = map[string]string{
	corev1.PodReasonPreemptionByScheduler: ReasonPreempted,
	"EvictionByEvictionAPI":               ReasonDrained,
	"DeletionByTaintManager":              ReasonNodeLost,
	"DeletionByPodGC":                     ReasonNodeLost,
}

// disruption returns the condition DisruptionTarget if it is true.
func disruption(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// takenFromNode reports whether the control plane removed the pod from its node.
func takenFromNode(pod *corev1.Pod) bool {
	c := disruption(pod)
	return c != nil && disruptionReasons[c.Reason] == ReasonNodeLost
}

// nodeReason maps the reason given by a kubelet.
func nodeReason(reason string) string {
	switch {
	case reason == "Preempting":
		return ReasonPreempted
	case reason == "Terminated", reason == "Shutdown":
		return ReasonNodeShutdown
	case isReason(reason):
		return reason
	default:
		return ReasonError
	}
}

// reasonPattern matches API reasons of at most 63 characters.
var reasonPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,62}$`)

// isReason reports whether word is a valid reason.
func isReason(word string) bool { return reasonPattern.MatchString(word) }
