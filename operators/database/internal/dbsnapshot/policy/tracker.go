// Package policy decides for a DBSnapshot when a copy starts, how it ended, and which copies to delete.
//
// Its functions depend on their arguments alone and send no requests. A copy starts only after its name is in the stored
// status, so a crash at any point leads to no second copy.
package policy

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/dbsnapshot/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/schedule"
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

// Tracker updates the status of one DBSnapshot: scheduled times, the running copy and the history.
type Tracker struct {
	Object *v1.DBSnapshot
	// Schedule is the parsed schedule, nil if there is none.
	Schedule *schedule.Schedule
	Now      time.Time
	// ConflictingObject is a foreign object that has the name of the copy; "" if there is none.
	ConflictingObject string
	// Blocked is the reason that prevents copies; "" if there is none.
	Blocked string
	// Events has the events of this reconcile.
	Events []Event
}

// Event is a Kubernetes event.
type Event struct {
	Warning         bool
	Reason, Message string
}

// AddEvent adds an event to the reconcile.
func (t *Tracker) AddEvent(warning bool, reason, format string, args ...any) {
	t.Events = append(t.Events, Event{warning, reason, fmt.Sprintf(format, args...)})
}

func (t *Tracker) status() *v1.DBSnapshotStatus { return &t.Object.Status }

// now returns the current time with the precision of a status.
func (t *Tracker) now() metav1.Time { return metav1.NewTime(t.Now.Truncate(time.Second)) }

// TakeDue records the copy that is due and counts missed times. A later reconcile starts the copy after reading it from the
// stored status. So no copy exists that the status does not list.
func (t *Tracker) TakeDue() {
	s := t.status()
	t.clampFutureTime()
	switch {
	case t.Object.Spec.Suspend:
		t.dropUnstarted()
	case t.Schedule == nil:
		if s.Active == nil && !OneShotDone(t.Object) {
			t.setActive(t.oneShotName(), t.now())
		}
	case t.scheduleChanged():
		if last, _ := t.Schedule.Between(t.lastHandled(), t.Now); !last.IsZero() && s.Active == nil {
			s.LastScheduleTime = new(metav1.NewTime(last))
		}
	default:
		t.takeScheduled()
	}
	s.NextScheduleTime = nil
	if t.Schedule != nil && !t.Object.Spec.Suspend {
		if next := t.Schedule.Next(t.lastHandled()); !next.IsZero() {
			s.NextScheduleTime = new(metav1.NewTime(next))
		}
	}
}

// maxClockLead is the largest lead of a wrong clock that is waited out, so that no scheduled time gets two copies.
const maxClockLead = 24 * time.Hour

// clampFutureTime resets a last schedule time that is too far in the future. It was recorded while the clock was ahead.
func (t *Tracker) clampFutureTime() {
	last := t.status().LastScheduleTime
	if t.Schedule != nil && last != nil && last.After(t.Now.Add(maxClockLead)) {
		t.status().LastScheduleTime = new(t.now())
	}
}

// dropUnstarted removes a due copy that has not started, because the schedule is suspended.
func (t *Tracker) dropUnstarted() {
	s := t.status()
	if s.Active == nil || s.Active.StartTime != nil {
		return
	}
	if t.Schedule != nil {
		s.LastScheduleTime = new(s.Active.ScheduleTime)
	}
	s.Active = nil
}

// scheduleChanged reports whether the last reconcile used another schedule or none. Earlier times of the current schedule do
// not count as missed.
func (t *Tracker) scheduleChanged() bool {
	was, next := conditions.Get(t.Object, v1.ConditionScheduled), t.status().NextScheduleTime
	if was != nil && (was.Reason == ReasonSuspended || was.Reason == ReasonInvalid) {
		return true
	}
	return next != nil && !next.Time.Equal(t.Schedule.Next(t.lastHandled()))
}

// lastHandled returns the last scheduled time that was started or counted as missed.
func (t *Tracker) lastHandled() time.Time {
	at := t.Object.CreationTimestamp.Time
	if last := t.status().LastScheduleTime; last != nil && last.After(at) {
		at = last.Time
	}
	if active := t.status().Active; active != nil && active.ScheduleTime.After(at) {
		at = active.ScheduleTime.Time
	}
	return at
}

func (t *Tracker) takeScheduled() {
	s := t.status()
	due, count := t.Schedule.Between(t.lastHandled(), t.Now)
	if count == 0 {
		if t.Object.Spec.Immediate && s.LastScheduleTime == nil && s.Active == nil {
			t.setActive(desired.ImmediateName(t.Object), t.now())
		}
		return
	}
	switch {
	case s.Active != nil && s.Active.StartTime != nil:
		t.recordMissed(count, due, "copy "+s.Active.Name+" was still being made")
		return
	case s.Active != nil:
		t.RecordFailure("the next copy was due before it could begin" + reasonSuffix(s.Active.Message))
	}
	if late := t.Now.Sub(due); late > t.StartingDeadline() {
		t.recordMissed(count, due, "the operator did not reconcile the DBSnapshot before the starting deadline")
		return
	}
	if count > 1 {
		t.recordMissed(count-1, time.Time{}, "the operator did not reconcile the DBSnapshot in time")
	}
	t.setActive(desired.RunName(t.Object, due), metav1.NewTime(due))
}

func (t *Tracker) setActive(name string, at metav1.Time) {
	if slices.ContainsFunc(t.status().History, func(r v1.SnapshotRecord) bool { return r.Name == name }) {
		t.status().LastScheduleTime = &at // a user edited the status
		return
	}
	t.status().Active = &v1.ActiveSnapshot{Name: name, ScheduleTime: at}
}

// recordMissed counts missed times. The argument last is the last of them; zero leaves lastScheduleTime unchanged.
func (t *Tracker) recordMissed(count int64, last time.Time, why string) {
	t.status().Missed += count
	if !last.IsZero() {
		t.status().LastScheduleTime = new(metav1.NewTime(last))
	}
	t.AddEvent(true, "Missed", "%d times of the schedule passed without a copy: %s", count, why)
}

// StartingDeadline returns the time by which a copy may start late.
func (t *Tracker) StartingDeadline() time.Duration {
	return time.Duration(t.Object.Spec.StartingDeadlineSeconds) * time.Second
}

func (t *Tracker) activeDeadline() time.Duration {
	return time.Duration(t.Object.Spec.ActiveDeadlineSeconds) * time.Second
}

// SetWaitReason records the reason that prevents the due copy from starting.
func (t *Tracker) SetWaitReason(why string) { t.status().Active.Message = why }

func reasonSuffix(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// MarkStarted records that the copy is running.
func (t *Tracker) MarkStarted() {
	s := t.status()
	if s.Active == nil || s.Active.StartTime != nil {
		return
	}
	s.Active.StartTime = new(t.now())
	s.Active.Message = ""
	if t.Schedule != nil {
		s.LastScheduleTime = new(s.Active.ScheduleTime)
	}
	t.AddEvent(false, "SnapshotStarted", "Copy %s is being made", s.Active.Name)
}

// Observe records the state of the running copy.
func (t *Tracker) Observe(a Attempt) {
	active := t.status().Active
	switch a.State {
	case Missing: // it is created again: the cache may lag, and deleting the Job does not cancel the copy
		switch {
		case active.StartTime == nil && t.Now.After(active.ScheduleTime.Add(t.StartingDeadline())):
			t.RecordFailure(fmt.Sprintf("it could not begin within %s%s", t.StartingDeadline(), reasonSuffix(active.Message)))
		case active.StartTime != nil && t.pastDeadline():
			t.RecordFailure("what made it is gone" + reasonSuffix(active.Message))
		}
	case ResultLost:
		if t.MarkStarted(); t.pastDeadline() {
			t.RecordFailure(a.Message)
			return
		}
		active.Message = a.Message
	case Running:
		t.MarkStarted()
		active.Message = a.Message
		if a.NoDeadline && t.pastDeadline() {
			t.RecordFailure(fmt.Sprintf("it took longer than %s%s", t.activeDeadline(), reasonSuffix(a.Message)))
		}
	case Succeeded:
		t.MarkStarted()
		t.recordSuccess(a.Result, a.CompletedAt)
	case Failed:
		t.MarkStarted()
		if a.IndirectMessage {
			a.Message += reasonSuffix(active.Message)
		}
		t.RecordFailure(a.Message)
	}
}

func (t *Tracker) pastDeadline() bool {
	return t.Now.After(t.status().Active.StartTime.Add(t.activeDeadline()))
}

// recordSuccess records a successful copy. The argument ended is the time of its completion, possibly long ago; zero means
// now.
func (t *Tracker) recordSuccess(r Result, ended time.Time) {
	s := t.status()
	active, at := s.Active, t.now()
	if ended.After(active.StartTime.Time) && ended.Before(t.Now) { // otherwise the clocks differ, or the time is unknown
		at = metav1.NewTime(ended)
	}
	duration := at.Sub(active.StartTime.Time)
	if r.Duration > 0 {
		duration = r.Duration
	}
	s.Active = nil
	s.ConsecutiveFailures = 0
	s.LastSuccessfulTime = &at
	s.LastSnapshot = &v1.LastSnapshot{
		Name: active.Name, Location: r.Location, SizeBytes: r.SizeBytes, SHA256: r.SHA256, ServerVersion: r.ServerVersion,
		Duration: metav1.Duration{Duration: max(0, duration)}, Verified: r.Verified,
	}
	t.addRecord(v1.SnapshotRecord{
		Name: active.Name, StartedAt: *active.StartTime, FinishedAt: new(at), Result: v1.ResultSucceeded,
		Location: r.Location, SizeBytes: r.SizeBytes,
	})
	t.AddEvent(false, "SnapshotSucceeded", "Copy %s is finished: %d bytes at %s", active.Name, r.SizeBytes, r.Location)
}

// maxMessage limits the message of a record, in runes.
const maxMessage = 512

// RecordFailure records that the due or running copy failed.
func (t *Tracker) RecordFailure(why string) {
	s := t.status()
	active := s.Active
	began := active.ScheduleTime
	if active.StartTime != nil {
		began = *active.StartTime
	}
	if t.Schedule != nil && (s.LastScheduleTime == nil || s.LastScheduleTime.Before(&active.ScheduleTime)) {
		s.LastScheduleTime = new(active.ScheduleTime)
	}
	s.Active = nil
	s.LastFailureTime = new(t.now())
	s.ConsecutiveFailures++
	t.addRecord(v1.SnapshotRecord{
		Name: active.Name, StartedAt: began, FinishedAt: new(t.now()), Result: v1.ResultFailed, Message: truncate(why),
	})
	t.AddEvent(true, "SnapshotFailed", "Copy %s failed: %s", active.Name, truncate(why))
}

func truncate(text string) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), maxMessage)])
}

// addRecord adds a record to the history and removes failures beyond spec.retention.keepFailed. Records of successful copies
// are removed when the copies are deleted.
func (t *Tracker) addRecord(r v1.SnapshotRecord) {
	s, failed := t.status(), int32(0)
	keep := t.keepFailed()
	s.History = slices.DeleteFunc(slices.Insert(s.History, 0, r), func(r v1.SnapshotRecord) bool {
		if r.Result == v1.ResultFailed {
			failed++
		}
		return r.Result == v1.ResultFailed && failed > keep
	})
}

func (t *Tracker) keepFailed() int32 {
	if keep := t.Object.Spec.Retention.KeepFailed; keep != nil {
		return *keep
	}
	return 1
}

// MaxCopies is the maximum number of copies of a DBSnapshot, including held ones.
const MaxCopies = 100

// Copies returns the successful copies, newest first.
func Copies(o *v1.DBSnapshot) []v1.SnapshotRecord {
	var all []v1.SnapshotRecord
	for _, r := range o.Status.History {
		if r.Result == v1.ResultSucceeded {
			all = append(all, r)
		}
	}
	return all
}

// RequeueAfter returns the time until the next deadline or scheduled time; zero if there is none.
func (t *Tracker) RequeueAfter() time.Duration {
	var soon time.Duration
	at := func(when time.Time) {
		if d := when.Sub(t.Now); d > 0 && (soon == 0 || d < soon) {
			soon = d
		}
	}
	s := t.status()
	if s.NextScheduleTime != nil {
		at(s.NextScheduleTime.Time)
	}
	if active := s.Active; active != nil {
		deadline := active.ScheduleTime.Add(t.StartingDeadline())
		if active.StartTime != nil {
			deadline = active.StartTime.Add(t.activeDeadline())
		}
		at(deadline.Add(time.Second)) // after the deadline
	}
	if t.Schedule != nil && !t.Object.Spec.Suspend {
		at(t.OverdueAt().Add(time.Second))
	}
	if age := t.Object.Spec.Retention.MaxAge; age != nil {
		for _, r := range Copies(t.Object) {
			at(r.FinishedAt.Add(age.Duration).Add(time.Second))
		}
	}
	return soon
}

// OverdueAt returns the time at which a newer copy than the last is expected: the second scheduled time since then, or the
// starting deadline of the first if that is earlier and no copy is running.
func (t *Tracker) OverdueAt() time.Time {
	since := t.Object.CreationTimestamp.Time
	if last := t.status().LastSuccessfulTime; last != nil {
		since = last.Time
	}
	if c := conditions.Get(t.Object, v1.ConditionScheduled); c != nil && c.LastTransitionTime.After(since) {
		since = c.LastTransitionTime.Time // it was suspended before
	}
	first := t.Schedule.Next(since)
	second := t.Schedule.Next(first)
	late := first.Add(t.StartingDeadline())
	if active := t.status().Active; late.After(second) || active != nil && active.StartTime != nil {
		return second
	}
	return late
}
