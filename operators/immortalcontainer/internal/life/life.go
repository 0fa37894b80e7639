package life

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
)

// Want is what should become of the pod.
type Want int

const (
	// Run means that the pod should exist as package desired describes it.
	Run Want = iota
	// Stop means that no pod should exist now. One that is ending already is left to end.
	Stop
	// Abandon means that the pod should be deleted without waiting for its node, which does not answer.
	Abandon
)

// String returns the name of the constant.
func (w Want) String() string { return [...]string{"Run", "Stop", "Abandon"}[w] }

// Step is what follows from one look at an ImmortalContainer and its pod.
type Step struct {
	// Want is what should become of the pod.
	Want Want
	// Counted reports whether the pod was part of the stored account when Next was called, and may therefore vanish.
	Counted bool
	// After is when to look again although nothing happens. Zero means never.
	After time.Duration
	// Reason and Message say why the container is not running and ready, as a CamelCase word and a sentence. Both are
	// empty if it is.
	Reason, Message string

	// Started reports that this call counted the pod: the status says for the first time that it was created.
	Started bool
	// Ended is the end of a pod that this call recorded, nil if none. It is for events and metrics.
	Ended *v1alpha1.LastTermination
	// Resumed reports that this call ended a suspension: the stored status said that there was one.
	Resumed bool
}

// Next brings the status of ic up to date with its pod at the time now, and says what should become of the pod, which
// is nil if there is none. The pod must be controlled by ic; it is not changed.
func Next(ic *v1alpha1.ImmortalContainer, pod *corev1.Pod, now time.Time) Step {
	l := &look{ic: ic, status: &ic.Status, pod: pod, now: now, step: Step{Counted: Counted(ic, pod)}}
	l.step.Resumed = ic.Status.Phase == v1alpha1.PhaseSuspended && !ic.Spec.Suspend
	if l.specChanged() {
		l.forgive()
	}
	switch {
	case pod == nil:
		l.absent()
	case l.step.Counted && pod.UID != ic.Status.PodUID:
		// The cache shows a pod whose successor has been counted already. It will catch up.
		return Step{Want: Run, Counted: true, Reason: ReasonStarting, Message: "The cache is behind; waiting for it."}
	default:
		l.present()
	}
	l.report()
	return l.step
}

// Counted reports whether the pod is part of the account in the status of ic.
func Counted(ic *v1alpha1.ImmortalContainer, pod *corev1.Pod) bool {
	return pod != nil && (pod.UID == ic.Status.PodUID || recorded(&ic.Status, pod.UID))
}

// look is one call of Next.
type look struct {
	ic     *v1alpha1.ImmortalContainer
	status *v1alpha1.ImmortalContainerStatus
	pod    *corev1.Pod
	now    time.Time
	step   Step
	sight  sight // of a pod that lives
	lost   bool  // the pod is ending and its node does not answer

	obstacle *metav1.Condition // what the last attempt to create the pod left
}

// absent decides when the next pod is created.
func (l *look) absent() {
	s := l.status
	s.CurrentPod, s.NodeName, s.ContainerRestarts = "", "", 0
	if l.ic.Spec.Suspend {
		l.step.Want, s.NextStartTime = Stop, nil
		return
	}
	if unseen := s.PodUID != "" && !recorded(s, s.PodUID); unseen && s.NextStartTime == nil && !l.specChanged() {
		// The pod was gone before anybody saw it end, or the cache does not show it yet. That it ended is recorded when
		// its successor exists; that it was not the first to vanish in a short time must count now.
		s.NextStartTime = l.afterDeletion(s.History)
	}
	if wait := l.delay(); wait > 0 {
		l.step.Want = Stop
		l.lookAgain(wait)
		return
	}
	s.NextStartTime = nil
}

// present accounts for a pod that exists, and decides whether it should go on.
func (l *look) present() {
	l.count()
	l.describe()
	if !recorded(l.status, l.pod.UID) {
		if end, dead := endOf(l.pod, l.now); dead {
			if end.reason == ReasonDeleted {
				end.reason = l.whyDeleted()
			}
			l.record(end)
			l.backOff(end)
		} else if reason := l.unwanted(); reason != "" {
			l.record(ending{uid: l.pod.UID, reason: reason, at: l.now})
		}
	}
	if recorded(l.status, l.pod.UID) {
		l.ending()
		return
	}
	l.alive()
}

// unwanted returns why a living pod has to go, if the specification says so, or "". What a pod cannot take over is no
// reason here: the API server knows better what that is, and the SDK replaces the pod only if the new one is accepted,
// so that a mistake in the specification does not end what works.
func (l *look) unwanted() string {
	s, spec := l.status, &l.ic.Spec
	switch {
	case spec.Suspend:
		return ReasonSuspended
	case spec.UpdateStrategy == v1alpha1.UpdateRecreate && s.PodImage != "" && s.PodImage != spec.Image:
		return ReasonImageChanged
	default:
		return ""
	}
}

// ending waits for a pod whose end is recorded to be gone.
func (l *look) ending() {
	l.step.Want = Stop
	l.lookAgain(l.delay())
	if l.pod.DeletionTimestamp == nil || !takenFromNode(l.pod) {
		return
	}
	if rest := lostAfter - l.now.Sub(l.pod.DeletionTimestamp.Time); rest > 0 {
		l.lookAgain(rest)
		return
	}
	l.lost = true
	if l.ic.Spec.NodeLost == v1alpha1.NodeLostReplace {
		l.step.Want = Abandon
	}
}

// alive lets a pod run on.
func (l *look) alive() {
	s := l.status
	l.step.Want = Run
	s.NextStartTime = nil
	// From here on the pod is brought to this image in place. It may have taken over other changes too.
	s.PodImage = l.ic.Spec.Image
	if revision := l.pod.Annotations[desired.AnnotationRevision]; revision != "" {
		s.PodRevision = revision
	}
	l.sight = see(l.pod, l.ic.Spec.Image)
	if s.ConsecutiveFailures == 0 || l.sight.since.IsZero() {
		return
	}
	if rest := settingsOf(l.ic).resetAfter - l.now.Sub(l.sight.since); rest > 0 {
		l.lookAgain(rest)
		return
	}
	s.ConsecutiveFailures = 0
}

// lookAgain asks for another look after that time at the latest.
func (l *look) lookAgain(after time.Duration) {
	if after > 0 && (l.step.After == 0 || after < l.step.After) {
		l.step.After = after
	}
}
