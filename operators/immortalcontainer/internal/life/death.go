package life

import (
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The reasons in lastTermination and history. Others come from the node as they are, for example OOMKilled, Error or
// OutOfcpu.
const (
	// ReasonDeleted means that somebody deleted the pod.
	ReasonDeleted = "Deleted"
	// ReasonDrained means that somebody asked for the pod's eviction, as kubectl drain does.
	ReasonDrained = "Drained"
	// ReasonPreempted means that the pod had to make room for one of a higher priority.
	ReasonPreempted = "Preempted"
	// ReasonNodeLost means that the control plane took the pod from its node, because that is gone, does not answer, or
	// has a taint that the pod does not tolerate.
	ReasonNodeLost = "NodeLost"
	// ReasonNodeShutdown means that the node was shut down in an orderly way.
	ReasonNodeShutdown = "NodeShutdown"
	// ReasonEvicted means that the node ran out of memory or disk space.
	ReasonEvicted = "Evicted"
	// ReasonCompleted and ReasonError mean that the pod ended with and without success.
	ReasonCompleted = "Completed"
	ReasonError     = "Error"
	// ReasonSuspended, ReasonSpecChanged and ReasonImageChanged mean that the operator ended the pod: because of
	// spec.suspend, because the pod could not take over a change, and because of the update strategy.
	ReasonSuspended    = "Suspended"
	ReasonSpecChanged  = "SpecChanged"
	ReasonImageChanged = "ImageChanged"
)

// Intended reports whether a pod that ended for that reason did so because the specification asked for it.
func Intended(reason string) bool {
	switch reason {
	case ReasonSuspended, ReasonSpecChanged, ReasonImageChanged:
		return true
	default:
		return false
	}
}

// cause is who ended a pod. It decides how soon the next one starts.
type cause int

const (
	byItself cause = iota // the container or its node: the next pod may well end the same way
	byOthers              // somebody deleted the pod
)

// ending is how a pod ended.
type ending struct {
	uid      types.UID
	cause    cause
	reason   string
	exitCode *int32
	at       time.Time
	ran      time.Duration // how long the container ran at last, 0 if unknown
	message  string
}

// endOf reports whether the pod has ended or is bound to, and how. It judges by what cannot change any more, so that
// whoever looks later comes to the same result: the exit code of a container that is stopped because its pod was
// deleted says nothing about why it ended, and it is not known at first.
func endOf(pod *corev1.Pod, now time.Time) (ending, bool) {
	last := lastRun(pod)
	e := ending{uid: pod.UID, at: now, ran: lasted(last)}
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
		e.reason, e.message = nodeReason(pod.Status.Reason), pod.Status.Message
	case condition != nil && disruptions[condition.Reason] != "":
		e.reason, e.message = disruptions[condition.Reason], condition.Message
	case pod.DeletionTimestamp != nil:
		e.reason = ReasonDeleted
	default:
		e.fromContainer(pod, last)
	}
	return e, true
}

// lastRun returns the end of the last run of the container, nil if it is not known.
func lastRun(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	c := containerStatus(pod)
	if c == nil || c.State.Terminated == nil || c.State.Terminated.Reason == "ContainerStatusUnknown" {
		return nil // in the last case the node lost track of it, and made the exit code up
	}
	return c.State.Terminated
}

// lasted returns how long a run of the container took, 0 if that is not known.
func lasted(run *corev1.ContainerStateTerminated) time.Duration {
	if run == nil || run.StartedAt.IsZero() || run.FinishedAt.IsZero() {
		return 0
	}
	return run.FinishedAt.Sub(run.StartedAt.Time)
}

// fromContainer takes the end of a pod from the last run of its container.
func (e *ending) fromContainer(pod *corev1.Pod, last *corev1.ContainerStateTerminated) {
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

// disruptions translates the reasons of the condition DisruptionTarget.
var disruptions = map[string]string{
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

// takenFromNode reports whether the control plane, and nobody else, decided that the pod leaves its node.
func takenFromNode(pod *corev1.Pod) bool {
	c := disruption(pod)
	return c != nil && disruptions[c.Reason] == ReasonNodeLost
}

// nodeReason translates the reason that a kubelet gives for the end of a pod.
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

// reasonPattern is what an API reason looks like, within what a condition accepts.
var reasonPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,62}$`)

// isReason reports whether a word from elsewhere can stand as a reason.
func isReason(word string) bool { return reasonPattern.MatchString(word) }
