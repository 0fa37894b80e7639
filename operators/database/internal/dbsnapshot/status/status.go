// Package status writes the conditions and the phase of DBSnapshots.
//
// It derives them from the tracker of a reconcile and changes nothing but the status and the events.
package status

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/policy"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Set derives the conditions and the phase from the other status fields.
func Set(t *policy.Tracker) {
	setScheduled(t)
	setLastSucceeded(t)
	setOverdue(t)
	setRetention(t)
	t.Object.Status.Phase = phase(t.Object)
}

// SetInvalidSchedule replaces [Set] for an invalid schedule.
func SetInvalidSchedule(t *policy.Tracker, err error) {
	if was := conditions.Get(t.Object, v1.ConditionScheduled); was == nil || was.Reason != policy.ReasonInvalid {
		t.AddEvent(true, policy.ReasonInvalid, "%v", err)
	}
	conditions.Set(t.Object, v1.ConditionScheduled, metav1.ConditionFalse, policy.ReasonInvalid, err.Error())
	t.Object.Status.NextScheduleTime = nil
	setLastSucceeded(t)
	setRetention(t)
	t.Object.Status.Phase = v1.SnapshotFailed
}

func setScheduled(t *policy.Tracker) {
	const kind = v1.ConditionScheduled
	was := conditions.Get(t.Object, kind)
	switch {
	case t.ConflictingObject != "":
		message := t.ConflictingObject + " belongs to another owner, and this copy is skipped: delete it, or use another name"
		if was == nil || was.Message != message {
			t.AddEvent(true, policy.ReasonNameTaken, "%s", message)
		}
		conditions.Set(t.Object, kind, metav1.ConditionFalse, policy.ReasonNameTaken, message)
	case t.Object.Spec.Suspend:
		conditions.Set(t.Object, kind, metav1.ConditionFalse, policy.ReasonSuspended,
			"spec.suspend is true: no copies are made")
	case t.Schedule == nil:
		conditions.Set(t.Object, kind, metav1.ConditionFalse, policy.ReasonNoSchedule,
			"without a schedule one copy is made at once")
	case t.Blocked != "":
		conditions.Set(t.Object, kind, metav1.ConditionTrue, policy.ReasonScheduled,
			"copies are due at the times of the schedule, and none can be made: "+t.Blocked)
	default:
		conditions.Set(t.Object, kind, metav1.ConditionTrue, policy.ReasonScheduled,
			"copies are due at the times of the schedule")
	}
}

func setLastSucceeded(t *policy.Tracker) {
	s := &t.Object.Status
	switch {
	case s.ConsecutiveFailures > 0:
		message := "the last attempt failed"
		if s.ConsecutiveFailures > 1 {
			message = fmt.Sprintf("the last %d attempts failed", s.ConsecutiveFailures)
		}
		if len(s.History) > 0 && s.History[0].Result == v1.ResultFailed {
			message += ": " + s.History[0].Message
		}
		conditions.Set(t.Object, v1.ConditionLastSucceeded, metav1.ConditionFalse, v1.ResultFailed, message)
	case s.LastSnapshot != nil:
		conditions.Set(t.Object, v1.ConditionLastSucceeded, metav1.ConditionTrue, v1.ResultSucceeded,
			"copy "+s.LastSnapshot.Name+" was made")
	default:
		conditions.Set(t.Object, v1.ConditionLastSucceeded, metav1.ConditionUnknown, "NoneYet", "there is no copy yet")
	}
}

func setOverdue(t *policy.Tracker) {
	was, why := conditionTrue(t.Object, v1.ConditionOverdue), overdueReason(t)
	switch {
	case why != "":
		conditions.Set(t.Object, v1.ConditionOverdue, metav1.ConditionTrue, "NoRecentCopy", why)
		if !was {
			t.AddEvent(true, "Overdue", "%s", why)
		}
	case t.Schedule == nil || t.Object.Spec.Suspend:
		conditions.Set(t.Object, v1.ConditionOverdue, metav1.ConditionFalse, "NotScheduled", "no copy is due")
	default:
		conditions.Set(t.Object, v1.ConditionOverdue, metav1.ConditionFalse, "OnTime", "there is no reason to expect a newer copy")
	}
}

// overdueReason returns the reason to expect a newer copy; "" if there is none.
func overdueReason(t *policy.Tracker) string {
	s := &t.Object.Status
	if t.Schedule == nil || t.Object.Spec.Suspend {
		return ""
	}
	if last := s.LastScheduleTime; last != nil && last.Sub(t.Now) > t.StartingDeadline() {
		return "the clock shows an earlier time than at the last copy, and none is made before " + last.UTC().Format(time.RFC3339)
	}
	if !t.Now.After(t.OverdueAt()) {
		return ""
	}
	if s.LastSuccessfulTime == nil {
		return "no copy has succeeded yet"
	}
	return "no copy has succeeded since " + s.LastSuccessfulTime.UTC().Format(time.RFC3339)
}

// conditionTrue reports whether the condition was true in the last reconcile, for any generation.
func conditionTrue(o *v1.DBSnapshot, kind string) bool {
	c := conditions.Get(o, kind)
	return c != nil && c.Status == metav1.ConditionTrue
}

func phase(o *v1.DBSnapshot) v1.SnapshotPhase {
	s := &o.Status
	switch {
	case s.Active != nil && s.Active.StartTime != nil:
		return v1.SnapshotRunning
	case policy.OneShotDone(o) && s.LastSuccessfulTime != nil:
		return v1.SnapshotSucceeded
	case policy.OneShotDone(o):
		return v1.SnapshotFailed
	case o.Spec.Suspend:
		return v1.SnapshotSuspended
	case conditionTrue(o, v1.ConditionOverdue):
		return v1.SnapshotOverdue
	case s.ConsecutiveFailures > 0 && o.Spec.Schedule != "":
		return v1.SnapshotFailed
	default:
		return v1.SnapshotScheduled
	}
}

// setRetention sets the condition RetentionEnforced.
func setRetention(t *policy.Tracker) {
	o := t.Object
	const kind = v1.ConditionRetention
	was := conditions.Get(o, kind)
	switch old := policy.Expired(o, t.Now); {
	case policy.RetentionPending(o):
		conditions.Set(t.Object, kind, metav1.ConditionFalse, "Pruning", "retention is applied after the last copy")
	case was != nil && (was.Reason == "PruneFailed" || was.Reason == "CopyMissing"):
	case len(old) > len(heldCopies(o)):
		conditions.Set(t.Object, kind, metav1.ConditionFalse, "ProtectedLastGood",
			"copies that are older than spec.retention says are kept, because there is no newer one that succeeded")
	case len(heldCopies(o)) > 0:
		message := fmt.Sprintf("%d copies stay because they are held", len(heldCopies(o)))
		conditions.Set(t.Object, kind, metav1.ConditionTrue, "Held", message)
	default:
		conditions.Set(t.Object, kind, metav1.ConditionTrue, "Enforced", "there are no copies but those to be kept")
	}
}

func heldCopies(o *v1.DBSnapshot) []string {
	var all []string
	for _, r := range o.Status.History {
		if r.Held {
			all = append(all, r.Name)
		}
	}
	return all
}
