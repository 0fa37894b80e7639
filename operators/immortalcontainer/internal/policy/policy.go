package policy

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
)

// Want is the desired state of the pod.
type Want int

const (
	// Run means that the pod should exist as package desired describes it.
	Run Want = iota
	// Stop means that no pod should exist now. A terminating pod is left to end.
	Stop
	// ForceDelete means that the pod should be deleted without its node, because the node does not answer.
	ForceDelete
)

// String returns the name of the constant.
func (w Want) String() string { return [...]string{"Run", "Stop", "Abandon"}[w] }

// Decision is the result of one evaluation of an ImmortalContainer and its pod.
type Decision struct {
	// Want is the desired state of the pod.
	Want Want
	// Counted reports whether the stored status had the pod before the call, so that the pod may disappear.
	Counted bool
	// After is the time until the next evaluation without an event. Zero means none.
	After time.Duration
	// Reason and Message explain a container that is not running and ready, as a CamelCase word and a sentence. Both are
	// empty otherwise.
	Reason, Message string

	// Started reports whether this call counted the pod.
	Started bool
	// Ended is the termination recorded by this call, or nil. It is for events and metrics.
	Ended *v1alpha1.LastTermination
	// Resumed reports whether this call ended a suspension in the stored status.
	Resumed bool
}

// Next updates the status of ic from its pod at the time now, and returns the decision. pod is nil if there is none;
// otherwise ic must control it. Next does not change it.
func Next(ic *v1alpha1.ImmortalContainer, pod *corev1.Pod, now time.Time) Decision {
	ev := &evaluation{ic: ic, status: &ic.Status, pod: pod, now: now, decision: Decision{Counted: Counted(ic, pod)}}
	ev.limitStatus()
	ev.decision.Resumed = ic.Status.Phase == v1alpha1.PhaseSuspended && !ic.Spec.Suspend
	if ev.specChanged() {
		ev.resetBackoff()
	}
	switch {
	case pod == nil:
		ev.withoutPod()
	case ev.decision.Counted && pod.UID != ic.Status.PodUID:
		// The cache shows a pod although its successor is counted already. It will catch up.
		return Decision{Want: Run, Counted: true, Reason: ReasonStarting, Message: "The cache is behind; waiting for it."}
	default:
		ev.withPod()
	}
	ev.report()
	return ev.decision
}

// Counted reports whether the status of ic counts the pod.
func Counted(ic *v1alpha1.ImmortalContainer, pod *corev1.Pod) bool {
	return pod != nil && (pod.UID == ic.Status.PodUID || recorded(&ic.Status, pod.UID))
}

// evaluation is the state of one call of Next.
type evaluation struct {
	ic       *v1alpha1.ImmortalContainer
	status   *v1alpha1.ImmortalContainerStatus
	pod      *corev1.Pod
	now      time.Time
	decision Decision
	state    podState // of a living pod
	nodeLost bool     // the pod is terminating and its node does not answer

	createFailure *metav1.Condition // condition of the last failed creation of the pod
}

// withoutPod decides when the next pod is created.
func (ev *evaluation) withoutPod() {
	s := ev.status
	s.CurrentPod = ""
	s.NodeName = ""
	s.ContainerRestarts = 0
	if ev.ic.Spec.Suspend {
		ev.decision.Want = Stop
		s.NextStartTime = nil
		return
	}
	if unseen := s.PodUID != "" && !recorded(s, s.PodUID); unseen && s.NextStartTime == nil && !ev.specChanged() {
		// The pod disappeared before a reconcile recorded its termination, or the cache does not show it yet. The
		// termination is recorded when the successor exists. The delay for repeated deletions must apply now.
		s.NextStartTime = ev.afterDeletion(s.History)
	}
	if wait := ev.untilNextStart(); wait > 0 {
		ev.decision.Want = Stop
		ev.requeueAfter(wait)
		return
	}
	s.NextStartTime = nil
}

// withPod counts a pod that exists, and decides if it keeps running.
func (ev *evaluation) withPod() {
	ev.countPod()
	ev.describePod()
	if !recorded(ev.status, ev.pod.UID) {
		if end, dead := terminationOf(ev.pod, ev.now); dead {
			if end.reason == ReasonDeleted {
				end.reason = ev.deletionReason()
			}
			ev.record(end)
			ev.scheduleNextStart(end)
		} else if reason := ev.stopReason(); reason != "" {
			ev.record(termination{uid: ev.pod.UID, reason: reason, at: ev.now})
		}
	}
	if recorded(ev.status, ev.pod.UID) {
		ev.awaitRemoval()
		return
	}
	ev.keepRunning()
}

// stopReason returns the reason for ending a living pod, or "". Fields that a running pod cannot take over are no reason
// here: the SDK replaces such a pod only if the API server accepts the new one, so that a mistake in the specification
// does not end a working pod.
func (ev *evaluation) stopReason() string {
	s, spec := ev.status, &ev.ic.Spec
	switch {
	case spec.Suspend:
		return ReasonSuspended
	case spec.UpdateStrategy == v1alpha1.UpdateRecreate && s.PodImage != "" && s.PodImage != spec.Image:
		return ReasonImageChanged
	default:
		return ""
	}
}

// awaitRemoval waits until a pod with a recorded termination is gone.
func (ev *evaluation) awaitRemoval() {
	ev.decision.Want = Stop
	ev.requeueAfter(ev.untilNextStart())
	if ev.pod.DeletionTimestamp == nil || !takenFromNode(ev.pod) {
		return
	}
	if rest := lostAfter - ev.now.Sub(ev.pod.DeletionTimestamp.Time); rest > 0 {
		ev.requeueAfter(rest)
		return
	}
	ev.nodeLost = true
	if ev.ic.Spec.NodeLost == v1alpha1.NodeLostReplace {
		ev.decision.Want = ForceDelete
	}
}

// keepRunning handles a living pod.
func (ev *evaluation) keepRunning() {
	s := ev.status
	ev.decision.Want = Run
	s.NextStartTime = nil
	// The SDK updates the pod to this image in place. The pod may have taken over other changes too.
	s.PodImage = ev.ic.Spec.Image
	if revision := ev.pod.Annotations[desired.AnnotationRevision]; revision != "" {
		s.PodRevision = revision
	}
	ev.state = podStateOf(ev.pod, ev.ic.Spec.Image)
	if s.ConsecutiveFailures == 0 || ev.state.since.IsZero() {
		return
	}
	if rest := backoffSettingsOf(ev.ic).resetAfter - ev.now.Sub(ev.state.since); rest > 0 {
		ev.requeueAfter(rest)
		return
	}
	s.ConsecutiveFailures = 0
}

// requeueAfter requests another evaluation after that time at the latest.
func (ev *evaluation) requeueAfter(after time.Duration) {
	if after > 0 && (ev.decision.After == 0 || after < ev.decision.After) {
		ev.decision.After = after
	}
}
