package snapshot

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Reasons of the condition Scheduled, and of Ready where it follows from that condition.
const (
	ReasonScheduled  = "Scheduled"
	ReasonSuspended  = "Suspended"
	ReasonNoSchedule = "NoSchedule"
	ReasonInvalid    = "InvalidSchedule"
	ReasonNameTaken  = "NameTaken"
)

func (t *Tracker) setCondition(kind string, status metav1.ConditionStatus, reason, message string) {
	conditions.Set(t.Object, kind, status, reason, message)
}

// SetConditions derives the conditions and the phase from the other status fields.
func (t *Tracker) SetConditions() {
	t.setScheduled()
	t.setLastSucceeded()
	t.setOverdue()
	t.setRetention()
	t.status().Phase = t.phase()
}

// SetInvalidSchedule replaces [Tracker.SetConditions] for an invalid schedule.
func (t *Tracker) SetInvalidSchedule(err error) {
	if was := conditions.Get(t.Object, v1.ConditionScheduled); was == nil || was.Reason != ReasonInvalid {
		t.addEvent(true, ReasonInvalid, "%v", err)
	}
	t.setCondition(v1.ConditionScheduled, metav1.ConditionFalse, ReasonInvalid, err.Error())
	t.status().NextScheduleTime = nil
	t.setLastSucceeded()
	t.setRetention()
	t.status().Phase = v1.SnapshotFailed
}

func (t *Tracker) setScheduled() {
	const kind = v1.ConditionScheduled
	was := conditions.Get(t.Object, kind)
	switch {
	case t.ConflictingObject != "":
		message := t.ConflictingObject + " belongs to somebody else, and this copy is skipped: delete or rename it"
		if was == nil || was.Message != message {
			t.addEvent(true, ReasonNameTaken, "%s", message)
		}
		t.setCondition(kind, metav1.ConditionFalse, ReasonNameTaken, message)
	case t.Object.Spec.Suspend:
		t.setCondition(kind, metav1.ConditionFalse, ReasonSuspended, "spec.suspend is true: no copies are made")
	case t.Schedule == nil:
		t.setCondition(kind, metav1.ConditionFalse, ReasonNoSchedule, "without a schedule one copy is made at once")
	default:
		t.setCondition(kind, metav1.ConditionTrue, ReasonScheduled, "copies are made on time")
	}
}

func (t *Tracker) setLastSucceeded() {
	s := t.status()
	switch {
	case s.ConsecutiveFailures > 0:
		message := "the last attempt failed"
		if s.ConsecutiveFailures > 1 {
			message = fmt.Sprintf("the last %d attempts failed", s.ConsecutiveFailures)
		}
		if len(s.History) > 0 && s.History[0].Result == v1.ResultFailed {
			message += ": " + s.History[0].Message
		}
		t.setCondition(v1.ConditionLastSucceeded, metav1.ConditionFalse, v1.ResultFailed, message)
	case s.LastSnapshot != nil:
		t.setCondition(v1.ConditionLastSucceeded, metav1.ConditionTrue, v1.ResultSucceeded,
			"copy "+s.LastSnapshot.Name+" was made")
	default:
		t.setCondition(v1.ConditionLastSucceeded, metav1.ConditionUnknown, "NoneYet", "there is no copy yet")
	}
}

func (t *Tracker) setOverdue() {
	was, why := conditionTrue(t.Object, v1.ConditionOverdue), t.overdueReason()
	switch {
	case why != "":
		t.setCondition(v1.ConditionOverdue, metav1.ConditionTrue, "NoRecentCopy", why)
		if !was {
			t.addEvent(true, "Overdue", "%s", why)
		}
	case t.Schedule == nil || t.Object.Spec.Suspend:
		t.setCondition(v1.ConditionOverdue, metav1.ConditionFalse, "NotScheduled", "no copy is due")
	default:
		t.setCondition(v1.ConditionOverdue, metav1.ConditionFalse, "OnTime", "there is no reason to expect a newer copy")
	}
}

// overdueReason returns the reason to expect a newer copy; "" if there is none.
func (t *Tracker) overdueReason() string {
	s := t.status()
	if t.Schedule == nil || t.Object.Spec.Suspend {
		return ""
	}
	if last := s.LastScheduleTime; last != nil && last.Sub(t.Now) > t.startingDeadline() {
		return "the clock shows an earlier time than at the last copy, and none is made before " + last.UTC().Format(time.RFC3339)
	}
	if !t.Now.After(t.overdueAt()) {
		return ""
	}
	if s.LastSuccessfulTime == nil {
		return "no copy has succeeded yet"
	}
	return "no copy has succeeded since " + s.LastSuccessfulTime.UTC().Format(time.RFC3339)
}

// overdueAt returns the time at which a newer copy than the last is expected: the second scheduled time since then, or the
// starting deadline of the first if that is earlier and no copy is running.
func (t *Tracker) overdueAt() time.Time {
	since := t.Object.CreationTimestamp.Time
	if last := t.status().LastSuccessfulTime; last != nil {
		since = last.Time
	}
	if c := conditions.Get(t.Object, v1.ConditionScheduled); c != nil && c.LastTransitionTime.After(since) {
		since = c.LastTransitionTime.Time // it was suspended before
	}
	first := t.Schedule.Next(since)
	second := t.Schedule.Next(first)
	late := first.Add(t.startingDeadline())
	if active := t.status().Active; late.After(second) || active != nil && active.StartTime != nil {
		return second
	}
	return late
}

// conditionTrue reports whether the condition was true in the last reconcile, for any generation.
func conditionTrue(o *v1.DBSnapshot, kind string) bool {
	c := conditions.Get(o, kind)
	return c != nil && c.Status == metav1.ConditionTrue
}

func (t *Tracker) phase() v1.SnapshotPhase {
	s, o := t.status(), t.Object
	switch {
	case s.Active != nil && s.Active.StartTime != nil:
		return v1.SnapshotRunning
	case OneShotDone(o) && s.LastSuccessfulTime != nil:
		return v1.SnapshotSucceeded
	case OneShotDone(o):
		return v1.SnapshotFailed
	case o.Spec.Suspend:
		return v1.SnapshotSuspended
	case conditionTrue(o, v1.ConditionOverdue):
		return v1.SnapshotOverdue
	case s.ConsecutiveFailures > 0:
		return v1.SnapshotFailed
	default:
		return v1.SnapshotScheduled
	}
}
