// Package snapshot decides what a DBSnapshot asks for: when a copy begins, what became of it, which copies go, and what the
// Jobs and VolumeSnapshots look like that make them. All of it is computed from what is observed; nothing here makes a
// request.
package snapshot

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/schedule"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Ledger is the account of one DBSnapshot, which is its status: what was due, what is being made and what came of it.
type Ledger struct {
	Object *v1.DBSnapshot
	// Schedule is that of the object, nil if it has none.
	Schedule *schedule.Schedule
	Now      time.Time
	// Taken names what has the name of the copy that is due and is somebody else's, if there is something.
	Taken string
	// Events are what happened in this pass.
	Events []Event
}

// Event is something that happened, for whoever watches.
type Event struct {
	Warning         bool
	Reason, Message string
}

func (l *Ledger) tell(warning bool, reason, format string, args ...any) {
	l.Events = append(l.Events, Event{warning, reason, fmt.Sprintf(format, args...)})
}

func (l *Ledger) status() *v1.DBSnapshotStatus { return &l.Object.Status }

// now is the time as a status has it.
func (l *Ledger) now() metav1.Time { return metav1.NewTime(l.Now.Truncate(time.Second)) }

// Done reports whether a DBSnapshot without a schedule has had its one attempt.
func Done(o *v1.DBSnapshot) bool {
	return o.Spec.Schedule == "" && (o.Status.LastSuccessfulTime != nil || o.Status.LastFailureTime != nil)
}

// Claim enters the copy that is due, if there is one, and the times that passed without. It is begun by a later pass, which
// finds it in the stored status: so no copy is ever begun that nobody knows of.
func (l *Ledger) Claim() {
	s := l.status()
	l.comeBack()
	switch {
	case l.Object.Spec.Suspend:
		l.skip()
	case l.Schedule == nil:
		if s.Active == nil && !Done(l.Object) {
			l.enter(AtOnceName(l.Object), l.now())
		}
	case l.changed():
		if last, _ := l.Schedule.Between(l.anchor(), l.Now); !last.IsZero() && s.Active == nil {
			s.LastScheduleTime = new(metav1.NewTime(last))
		}
	default:
		l.claimScheduled()
	}
	s.NextScheduleTime = nil
	if l.Schedule != nil && !l.Object.Spec.Suspend {
		if next := l.Schedule.Next(l.anchor()); !next.IsZero() {
			s.NextScheduleTime = new(metav1.NewTime(next))
		}
	}
}

// maxAhead is by how much a clock may have been ahead that is waited for: so no time gets two copies.
const maxAhead = 24 * time.Hour

// comeBack forgets a time of the schedule that has yet to come, which was dealt with while the clock was far ahead.
func (l *Ledger) comeBack() {
	last := l.status().LastScheduleTime
	if l.Schedule != nil && last != nil && last.After(l.Now.Add(maxAhead)) {
		l.status().LastScheduleTime = new(l.now())
	}
}

// skip forgets a copy that is due and has not begun, because the schedule is suspended.
func (l *Ledger) skip() {
	s := l.status()
	if s.Active == nil || s.Active.StartTime != nil {
		return
	}
	if l.Schedule != nil {
		s.LastScheduleTime = new(s.Active.ScheduleTime)
	}
	s.Active = nil
}

// changed reports whether another schedule was in force at the last pass, or none. The times that this one had before are
// nobody's loss.
func (l *Ledger) changed() bool {
	was, next := conditions.Get(l.Object, v1.ConditionScheduled), l.status().NextScheduleTime
	if was != nil && (was.Reason == ReasonSuspended || was.Reason == ReasonInvalid) {
		return true
	}
	return next != nil && !next.Time.Equal(l.Schedule.Next(l.anchor()))
}

// anchor is the last time of the schedule that was dealt with.
func (l *Ledger) anchor() time.Time {
	at := l.Object.CreationTimestamp.Time
	if last := l.status().LastScheduleTime; last != nil && last.After(at) {
		at = last.Time
	}
	if active := l.status().Active; active != nil && active.ScheduleTime.After(at) {
		at = active.ScheduleTime.Time
	}
	return at
}

func (l *Ledger) claimScheduled() {
	s := l.status()
	due, count := l.Schedule.Between(l.anchor(), l.Now)
	if count == 0 {
		if l.Object.Spec.Immediate && s.LastScheduleTime == nil && s.Active == nil {
			l.enter(AtOnceName(l.Object), l.now())
		}
		return
	}
	switch {
	case s.Active != nil && s.Active.StartTime != nil:
		l.miss(count, due, "copy "+s.Active.Name+" was still being made")
		return
	case s.Active != nil:
		l.Fail("the next copy was due before it could begin" + because(s.Active.Message))
	}
	if late := l.Now.Sub(due); late > l.startingDeadline() {
		l.miss(count, due, "nobody was there to make a copy until it was too late")
		return
	}
	if count > 1 {
		l.miss(count-1, time.Time{}, "nobody was there to make a copy")
	}
	l.enter(RunName(l.Object, due), metav1.NewTime(due))
}

func (l *Ledger) enter(name string, at metav1.Time) {
	if slices.ContainsFunc(l.status().History, func(r v1.SnapshotRecord) bool { return r.Name == name }) {
		l.status().LastScheduleTime = &at // somebody edited the status
		return
	}
	l.status().Active = &v1.ActiveSnapshot{Name: name, ScheduleTime: at}
}

// miss counts times that passed, the last of them at a time that is dealt with, unless that is zero.
func (l *Ledger) miss(count int64, last time.Time, why string) {
	l.status().Missed += count
	if !last.IsZero() {
		l.status().LastScheduleTime = new(metav1.NewTime(last))
	}
	l.tell(true, "Missed", "%d times of the schedule passed without a copy: %s", count, why)
}

func (l *Ledger) startingDeadline() time.Duration {
	return time.Duration(l.Object.Spec.StartingDeadlineSeconds) * time.Second
}

func (l *Ledger) activeDeadline() time.Duration {
	return time.Duration(l.Object.Spec.ActiveDeadlineSeconds) * time.Second
}

// Delay says why the copy that is due cannot begin.
func (l *Ledger) Delay(why string) { l.status().Active.Message = why }

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// Begin enters that the copy is being made.
func (l *Ledger) Begin() {
	s := l.status()
	if s.Active == nil || s.Active.StartTime != nil {
		return
	}
	s.Active.StartTime, s.Active.Message = new(l.now()), ""
	if l.Schedule != nil {
		s.LastScheduleTime = new(s.Active.ScheduleTime)
	}
	l.tell(false, "SnapshotStarted", "Copy %s is being made", s.Active.Name)
}

// Follow enters what became of the copy that is being made.
func (l *Ledger) Follow(a Attempt) {
	active := l.status().Active
	switch a.State {
	case Missing: // it is made again: whoever deleted it did not mean the copy, and it may only not be in sight
		switch {
		case active.StartTime == nil && l.Now.After(active.ScheduleTime.Add(l.startingDeadline())):
			l.Fail(fmt.Sprintf("it could not begin within %s%s", l.startingDeadline(), because(active.Message)))
		case active.StartTime != nil && l.overtime():
			l.Fail("what made it is gone" + because(active.Message))
		}
	case Lost:
		if l.Begin(); l.overtime() {
			l.Fail(a.Message)
			return
		}
		active.Message = a.Message
	case Running:
		l.Begin()
		active.Message = a.Message
		if a.Unbounded && l.overtime() {
			l.Fail(fmt.Sprintf("it took longer than %s%s", l.activeDeadline(), because(a.Message)))
		}
	case Succeeded:
		l.Begin()
		l.succeed(a.Result, a.Ended)
	case Failed:
		l.Begin()
		if a.Vague {
			a.Message += because(active.Message)
		}
		l.Fail(a.Message)
	}
}

func (l *Ledger) overtime() bool {
	return l.Now.After(l.status().Active.StartTime.Add(l.activeDeadline()))
}

// succeed enters a copy that was finished at a time, which may be long past if nobody looked; zero means now.
func (l *Ledger) succeed(r Result, ended time.Time) {
	s := l.status()
	active, at := s.Active, l.now()
	if ended.After(active.StartTime.Time) && ended.Before(l.Now) { // else the clocks differ, or nobody knows
		at = metav1.NewTime(ended)
	}
	duration := at.Sub(active.StartTime.Time)
	if r.Duration > 0 {
		duration = r.Duration
	}
	s.Active, s.ConsecutiveFailures, s.LastSuccessfulTime = nil, 0, &at
	s.LastSnapshot = &v1.LastSnapshot{
		Name: active.Name, Location: r.Location, SizeBytes: r.SizeBytes, SHA256: r.SHA256, ServerVersion: r.ServerVersion,
		Duration: metav1.Duration{Duration: max(0, duration)}, Verified: r.Verified,
	}
	l.record(v1.SnapshotRecord{
		Name: active.Name, StartedAt: *active.StartTime, FinishedAt: new(at), Result: v1.ResultSucceeded,
		Location: r.Location, SizeBytes: r.SizeBytes,
	})
	l.tell(false, "SnapshotSucceeded", "Copy %s is finished: %d bytes at %s", active.Name, r.SizeBytes, r.Location)
}

// maxMessage is how much a record says.
const maxMessage = 512

// Fail enters that the copy that is due or being made did not come about.
func (l *Ledger) Fail(why string) {
	s := l.status()
	active := s.Active
	began := active.ScheduleTime
	if active.StartTime != nil {
		began = *active.StartTime
	}
	if l.Schedule != nil && (s.LastScheduleTime == nil || s.LastScheduleTime.Before(&active.ScheduleTime)) {
		s.LastScheduleTime = new(active.ScheduleTime)
	}
	s.Active, s.LastFailureTime = nil, new(l.now())
	s.ConsecutiveFailures++
	l.record(v1.SnapshotRecord{
		Name: active.Name, StartedAt: began, FinishedAt: new(l.now()), Result: v1.ResultFailed, Message: shorten(why),
	})
	l.tell(true, "SnapshotFailed", "Copy %s failed: %s", active.Name, shorten(why))
}

func shorten(text string) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), maxMessage)])
}

// record adds to the history, of which the failures beyond those to be kept go. Those that succeeded go when they are
// deleted, and not before.
func (l *Ledger) record(r v1.SnapshotRecord) {
	s, failed := l.status(), int32(0)
	keep := l.keepFailed()
	s.History = slices.DeleteFunc(slices.Insert(s.History, 0, r), func(r v1.SnapshotRecord) bool {
		if r.Result == v1.ResultFailed {
			failed++
		}
		return r.Result == v1.ResultFailed && failed > keep
	})
}

func (l *Ledger) keepFailed() int32 {
	if keep := l.Object.Spec.Retention.KeepFailed; keep != nil {
		return *keep
	}
	return 1
}

// MaxCopies is how many copies a DBSnapshot has at most; those that are held count.
const MaxCopies = 100

// Copies are those that there are, the newest first.
func Copies(o *v1.DBSnapshot) []v1.SnapshotRecord {
	var all []v1.SnapshotRecord
	for _, r := range o.Status.History {
		if r.Result == v1.ResultSucceeded {
			all = append(all, r)
		}
	}
	return all
}

// Soon returns when there is something to do, the time until then; zero if nobody knows.
func (l *Ledger) Soon() time.Duration {
	var soon time.Duration
	at := func(t time.Time) {
		if d := t.Sub(l.Now); d > 0 && (soon == 0 || d < soon) {
			soon = d
		}
	}
	s := l.status()
	if s.NextScheduleTime != nil {
		at(s.NextScheduleTime.Time)
	}
	if active := s.Active; active != nil {
		deadline := active.ScheduleTime.Add(l.startingDeadline())
		if active.StartTime != nil {
			deadline = active.StartTime.Add(l.activeDeadline())
		}
		at(deadline.Add(time.Second)) // when it is over
	}
	if l.Schedule != nil && !l.Object.Spec.Suspend {
		at(l.overdueAt().Add(time.Second))
	}
	if age := l.Object.Spec.Retention.MaxAge; age != nil {
		for _, r := range Copies(l.Object) {
			at(r.FinishedAt.Add(age.Duration).Add(time.Second))
		}
	}
	return soon
}
