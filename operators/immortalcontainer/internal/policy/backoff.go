package policy

import (
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// A deleted pod is replaced at once. The sixth deletion within a minute points to a controller or a script: the next pod
// then waits until the first of the six deletions is a minute old.
const (
	deletionBurst  = 5
	deletionWindow = time.Minute
)

// lostAfter is the time from the end of a pod's grace period until its node counts as lost. A working node removes the pod
// within seconds.
const lostAfter = 30 * time.Second

// backoffSettings are the restart settings, with defaults for objects that did not come from the API server.
type backoffSettings struct{ initial, longest, resetAfter time.Duration }

func backoffSettingsOf(ic *v1alpha1.ImmortalContainer) backoffSettings {
	or := func(d metav1.Duration, otherwise time.Duration) time.Duration {
		if d.Duration > 0 {
			return d.Duration
		}
		return otherwise
	}
	r := ic.Spec.Restart
	return backoffSettings{
		initial:    or(r.InitialBackoff, v1alpha1.DefaultInitialBackoff),
		longest:    or(r.MaxBackoff, v1alpha1.DefaultMaxBackoff),
		resetAfter: or(r.ResetAfter, v1alpha1.DefaultResetAfter),
	}
}

// delay returns the backoff after the n-th consecutive pod that ended by itself; n counts from 1.
func (s backoffSettings) delay(n int32) time.Duration {
	wait := s.initial
	for i := int32(1); i < n && wait < s.longest; i++ {
		wait *= 2
	}
	return min(wait, s.longest)
}

// specChanged reports whether the specification has changed since the last evaluation. Every evaluation writes the
// observed generation of the BackingOff condition.
func (ev *evaluation) specChanged() bool {
	c := conditions.Get(ev.ic, ConditionBackingOff)
	return c != nil && c.ObservedGeneration != ev.ic.Generation
}

// limitStatus replaces values of the stored status that this package never writes, because other clients may write the
// status too: negative counts would be counted on, and a start in the far future would never happen.
func (ev *evaluation) limitStatus() {
	s, set := ev.status, backoffSettingsOf(ev.ic)
	s.StartTimes = min(max(s.StartTimes, 0), math.MaxInt64-1)
	s.ConsecutiveFailures = min(max(s.ConsecutiveFailures, 0), math.MaxInt32-1)
	latest := wholeSecond(ev.now.Add(max(set.longest, deletionWindow)))
	if s.NextStartTime != nil && latest.Before(s.NextStartTime) {
		s.NextStartTime = latest
	}
}

// resetBackoff ends the backoff after a change of the specification.
func (ev *evaluation) resetBackoff() {
	ev.status.ConsecutiveFailures = 0
	ev.status.NextStartTime = nil
}

// scheduleNextStart sets the time of the next start after a termination.
func (ev *evaluation) scheduleNextStart(e termination) {
	s := ev.status
	if ev.specChanged() {
		return // the pod had an outdated specification
	}
	if e.cause == byOthers {
		if endedByDeletion(e.reason) {
			s.NextStartTime = ev.afterDeletion(s.History[1:])
		}
		return
	}
	set := backoffSettingsOf(ev.ic)
	if e.ran >= set.resetAfter {
		s.ConsecutiveFailures = 0
	}
	s.ConsecutiveFailures++
	s.NextStartTime = wholeSecond(ev.now.Add(set.delay(s.ConsecutiveFailures)))
}

// afterDeletion returns the earliest start of the next pod after a deletion at ev.now, or nil for at once.
func (ev *evaluation) afterDeletion(before []v1alpha1.Termination) *metav1.Time {
	var others int
	for _, t := range before {
		if !endedByDeletion(t.Reason) || ev.now.Sub(t.FinishedAt.Time) >= deletionWindow {
			continue
		}
		if others++; others == deletionBurst {
			return wholeSecond(t.FinishedAt.Add(deletionWindow))
		}
	}
	return nil
}

// endedByDeletion reports whether the reason is that of a deleted pod.
func endedByDeletion(reason string) bool {
	switch reason {
	case ReasonDeleted, ReasonDrained, ReasonPreempted, ReasonNodeLost:
		return true
	default:
		return false
	}
}

// untilNextStart returns the remaining delay of the next start.
func (ev *evaluation) untilNextStart() time.Duration {
	if ev.status.NextStartTime == nil {
		return 0
	}
	return ev.status.NextStartTime.Sub(ev.now)
}

// wholeSecond rounds up to the precision of the API server.
func wholeSecond(t time.Time) *metav1.Time {
	rounded := metav1.NewTime(t.Add(time.Second - time.Nanosecond).Truncate(time.Second))
	return &rounded
}
