package life

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// A pod that somebody deletes is replaced at once, unless it is the sixth in a minute: then somebody keeps deleting it,
// and the next one waits until the first of the six is a minute ago.
const (
	deletionBurst  = 5
	deletionWindow = time.Minute
)

// lostAfter is how long after the end of its grace period a pod that was taken from its node must still be there for
// the node to be called lost. A node that works removes a pod within seconds of that time.
const lostAfter = 30 * time.Second

// settings are the restart settings, with defaults for an object that did not come from the API server.
type settings struct{ initial, longest, resetAfter time.Duration }

func settingsOf(ic *v1alpha1.ImmortalContainer) settings {
	or := func(d metav1.Duration, otherwise time.Duration) time.Duration {
		if d.Duration > 0 {
			return d.Duration
		}
		return otherwise
	}
	r := ic.Spec.Restart
	return settings{
		initial:    or(r.InitialBackoff, v1alpha1.DefaultInitialBackoff),
		longest:    or(r.MaxBackoff, v1alpha1.DefaultMaxBackoff),
		resetAfter: or(r.ResetAfter, v1alpha1.DefaultResetAfter),
	}
}

// after returns the wait after the n-th pod in a row that ended by itself, n counting from 1.
func (s settings) after(n int32) time.Duration {
	wait := s.initial
	for i := int32(1); i < n && wait < s.longest; i++ {
		wait *= 2
	}
	return min(wait, s.longest)
}

// specChanged reports whether the specification is another one than that of the last look. The BackingOff condition
// remembers it, because every look writes that.
func (l *look) specChanged() bool {
	c := conditions.Get(l.ic, ConditionBackingOff)
	return c != nil && c.ObservedGeneration != l.ic.Generation
}

// forgive ends the backoff: what kept ending may work now.
func (l *look) forgive() {
	l.status.ConsecutiveFailures = 0
	l.status.NextStartTime = nil
}

// backOff decides when the pod after the one that ended may start.
func (l *look) backOff(e ending) {
	s := l.status
	if l.specChanged() {
		return // what ended was not yet what is wanted now
	}
	if e.cause == byOthers {
		if takenAway(e.reason) {
			s.NextStartTime = l.afterDeletion(s.History[1:])
		}
		return
	}
	set := settingsOf(l.ic)
	if e.ran >= set.resetAfter {
		s.ConsecutiveFailures = 0
	}
	s.ConsecutiveFailures++
	s.NextStartTime = wholeSecond(l.now.Add(set.after(s.ConsecutiveFailures)))
}

// afterDeletion returns when the next pod may start after a deletion now and those before it, nil for at once.
func (l *look) afterDeletion(before []v1alpha1.Termination) *metav1.Time {
	var others int
	for _, t := range before {
		if !takenAway(t.Reason) || l.now.Sub(t.FinishedAt.Time) >= deletionWindow {
			continue
		}
		if others++; others == deletionBurst {
			return wholeSecond(t.FinishedAt.Add(deletionWindow))
		}
	}
	return nil
}

// takenAway reports whether a pod ended for that reason because somebody deleted it.
func takenAway(reason string) bool {
	switch reason {
	case ReasonDeleted, ReasonDrained, ReasonPreempted, ReasonNodeLost:
		return true
	default:
		return false
	}
}

// delay is how long the next start has to wait.
func (l *look) delay() time.Duration {
	if l.status.NextStartTime == nil {
		return 0
	}
	return l.status.NextStartTime.Sub(l.now)
}

// wholeSecond rounds up to what the API server stores.
func wholeSecond(t time.Time) *metav1.Time {
	rounded := metav1.NewTime(t.Add(time.Second - time.Nanosecond).Truncate(time.Second))
	return &rounded
}
