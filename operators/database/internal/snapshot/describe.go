package snapshot

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// The reasons of the condition Scheduled, and of Ready where that follows from it.
const (
	ReasonScheduled  = "Scheduled"
	ReasonSuspended  = "Suspended"
	ReasonNoSchedule = "NoSchedule"
	ReasonInvalid    = "InvalidSchedule"
	ReasonNameTaken  = "NameTaken"
)

func (l *Ledger) set(kind string, status metav1.ConditionStatus, reason, message string) {
	conditions.Set(l.Object, kind, status, reason, message)
}

// Describe writes what follows from the account: the next time, the conditions and the phase.
func (l *Ledger) Describe() {
	l.describeSchedule()
	l.describeLast()
	l.describeOverdue()
	l.describeRetention()
	l.status().Phase = l.phase()
}

// DescribeInvalid is [Ledger.Describe] for a schedule that is none.
func (l *Ledger) DescribeInvalid(err error) {
	if was := conditions.Get(l.Object, v1.ConditionScheduled); was == nil || was.Reason != ReasonInvalid {
		l.tell(true, ReasonInvalid, "%v", err)
	}
	l.set(v1.ConditionScheduled, metav1.ConditionFalse, ReasonInvalid, err.Error())
	l.status().NextScheduleTime = nil
	l.describeLast()
	l.describeRetention()
	l.status().Phase = v1.SnapshotFailed
}

func (l *Ledger) describeSchedule() {
	const kind = v1.ConditionScheduled
	was := conditions.Get(l.Object, kind)
	switch {
	case l.Taken != "":
		message := l.Taken + " belongs to somebody else, and this copy is skipped: delete or rename it"
		if was == nil || was.Message != message {
			l.tell(true, ReasonNameTaken, "%s", message)
		}
		l.set(kind, metav1.ConditionFalse, ReasonNameTaken, message)
	case l.Object.Spec.Suspend:
		l.set(kind, metav1.ConditionFalse, ReasonSuspended, "spec.suspend is true: no copies are made")
	case l.Schedule == nil:
		l.set(kind, metav1.ConditionFalse, ReasonNoSchedule, "without a schedule one copy is made at once")
	default:
		l.set(kind, metav1.ConditionTrue, ReasonScheduled, "copies are made on time")
	}
}

func (l *Ledger) describeLast() {
	s := l.status()
	switch {
	case s.ConsecutiveFailures > 0:
		message := "the last attempt failed"
		if s.ConsecutiveFailures > 1 {
			message = fmt.Sprintf("the last %d attempts failed", s.ConsecutiveFailures)
		}
		if len(s.History) > 0 && s.History[0].Result == v1.ResultFailed {
			message += ": " + s.History[0].Message
		}
		l.set(v1.ConditionLastSucceeded, metav1.ConditionFalse, v1.ResultFailed, message)
	case s.LastSnapshot != nil:
		l.set(v1.ConditionLastSucceeded, metav1.ConditionTrue, v1.ResultSucceeded, "copy "+s.LastSnapshot.Name+" was made")
	default:
		l.set(v1.ConditionLastSucceeded, metav1.ConditionUnknown, "NoneYet", "there is no copy yet")
	}
}

func (l *Ledger) describeOverdue() {
	was, why := is(l.Object, v1.ConditionOverdue), l.overdue()
	switch {
	case why != "":
		l.set(v1.ConditionOverdue, metav1.ConditionTrue, "NoRecentCopy", why)
		if !was {
			l.tell(true, "Overdue", "%s", why)
		}
	case l.Schedule == nil || l.Object.Spec.Suspend:
		l.set(v1.ConditionOverdue, metav1.ConditionFalse, "NotScheduled", "no copy is due")
	default:
		l.set(v1.ConditionOverdue, metav1.ConditionFalse, "OnTime", "there is no reason to expect a newer copy")
	}
}

// overdue says why there should be a newer copy, if so.
func (l *Ledger) overdue() string {
	s := l.status()
	if l.Schedule == nil || l.Object.Spec.Suspend {
		return ""
	}
	if last := s.LastScheduleTime; last != nil && last.Sub(l.Now) > l.startingDeadline() {
		return "the clock shows an earlier time than at the last copy, and none is made before " + last.UTC().Format(time.RFC3339)
	}
	if !l.Now.After(l.overdueAt()) {
		return ""
	}
	if s.LastSuccessfulTime == nil {
		return "no copy has succeeded yet"
	}
	return "no copy has succeeded since " + s.LastSuccessfulTime.UTC().Format(time.RFC3339)
}

// overdueAt is when there should be a newer copy than the last: when the second time of the schedule since has passed, or as
// late as the first may begin, unless it is being made then.
func (l *Ledger) overdueAt() time.Time {
	since := l.Object.CreationTimestamp.Time
	if last := l.status().LastSuccessfulTime; last != nil {
		since = last.Time
	}
	if c := conditions.Get(l.Object, v1.ConditionScheduled); c != nil && c.LastTransitionTime.After(since) {
		since = c.LastTransitionTime.Time // before, it was suspended
	}
	first := l.Schedule.Next(since)
	second := l.Schedule.Next(first)
	late := first.Add(l.startingDeadline())
	if active := l.status().Active; late.After(second) || active != nil && active.StartTime != nil {
		return second
	}
	return late
}

// is reports whether the last pass found the condition true, of whichever generation.
func is(o *v1.DBSnapshot, kind string) bool {
	c := conditions.Get(o, kind)
	return c != nil && c.Status == metav1.ConditionTrue
}

func (l *Ledger) phase() v1.SnapshotPhase {
	s, o := l.status(), l.Object
	switch {
	case s.Active != nil && s.Active.StartTime != nil:
		return v1.SnapshotRunning
	case Done(o) && s.LastSuccessfulTime != nil:
		return v1.SnapshotSucceeded
	case Done(o):
		return v1.SnapshotFailed
	case o.Spec.Suspend:
		return v1.SnapshotSuspended
	case is(o, v1.ConditionOverdue):
		return v1.SnapshotOverdue
	case s.ConsecutiveFailures > 0:
		return v1.SnapshotFailed
	default:
		return v1.SnapshotScheduled
	}
}
