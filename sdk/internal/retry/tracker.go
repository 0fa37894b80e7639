package retry

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// Key identifies one intent for one instance of a child. The UID is "" before the creation. With Creation it identifies the
// creations of the child with this intent, for all of its instances.
type Key struct {
	Child    object.ID
	UID      types.UID
	Digest   string
	Creation bool
}

// slot is the place of a key in a [Tracker]: each child has one for its present instance, and one for its creations.
type slot struct {
	child    object.ID
	creation bool
}

func (a Key) slot() slot { return slot{a.Child, a.Creation} }

// childRetry is the retry state of a child that the API server rejected, or that another client reverts or deletes. It keeps
// the operator from giving up and from flooding the API server. A new intent starts without it, and so does a new instance,
// except for its creation.
type childRetry struct {
	key         Key
	notBefore   time.Time       // no request before then
	err         *ReconcileError // the error to report until then
	rejections  int
	applied     []time.Time // the last applies of this intent, newest last
	contentions int
	contention  *ReconcileError // nil without contention
	kept        string          // resourceVersion in which content of other managers could not be removed
}

const (
	// Contention means this many applies of the same intent within the window: another client reverted each of them, or
	// deleted the child.
	contendedApplies = 4
	contentionWindow = time.Minute
	// contentionCooldown ends a contention: no apply was needed for this time.
	contentionCooldown = 10 * time.Minute
	// contentionHold is the longest time for which a contention is still reported after an apply that was not reverted.
	contentionHold = 10 * time.Second
)

// Tracker holds the retry state of one object's children. It is used by one reconcile at a time.
type Tracker map[slot]*childRetry

// RetainOnly drops the state of all children for which the function returns false.
func (p Tracker) RetainOnly(planned func(object.ID) bool) {
	maps.DeleteFunc(p, func(s slot, _ *childRetry) bool { return !planned(s.child) })
}

// RecordKept records that a removal of content of other managers did not change this version of the child: admission, or a
// default of the API server, adds the content again in the same request.
func (p Tracker) RecordKept(a Key, version string) { p.entry(a).kept = version }

// IsKept reports whether a removal did not change this version of the child.
func (p Tracker) IsKept(a Key, version string) bool {
	t, ok := p.lookup(a)
	return ok && t.kept == version
}

// Check returns the error to report instead of making a request, or nil if a request may be made. The error carries the
// remaining time.
func (p Tracker) Check(a Key, now time.Time) error {
	t, ok := p.lookup(a)
	if !ok || !now.Before(t.notBefore) {
		return nil
	}
	return t.err.Within(t.notBefore.Sub(now))
}

func (p Tracker) lookup(a Key) (*childRetry, bool) {
	t, ok := p[a.slot()]
	return t, ok && t.key == a
}

func (p Tracker) entry(a Key) *childRetry {
	t, ok := p.lookup(a)
	if !ok {
		t = &childRetry{key: a}
		p[a.slot()] = t
	}
	return t
}

// RecordRejection records a rejection and returns the error to report: it carries the time of the next attempt.
func (p Tracker) RecordRejection(a Key, err *ReconcileError, now time.Time) error {
	t := p.entry(a)
	t.rejections++
	// The first retry comes after 0.8 s: a rejection rarely ends within milliseconds.
	err.After = backoff(t.rejections + 3)
	t.notBefore = now.Add(err.After)
	t.err = err
	return err
}

// RecordApply records that an intent was applied.
func (p Tracker) RecordApply(a Key, now time.Time) {
	t := p.entry(a)
	t.rejections = 0
	t.err = nil
	t.notBefore = time.Time{}
	t.applied = append(t.applied, now)
	if len(t.applied) > contendedApplies {
		t.applied = slices.Delete(t.applied, 0, len(t.applied)-contendedApplies)
	}
}

// ContentionDelay returns the delay until the next attempt, and whether the same intent was applied so often that another
// manager must be reverting it.
func (p Tracker) ContentionDelay(a Key, now time.Time) (time.Duration, bool) {
	t, ok := p.lookup(a)
	if !ok || len(t.applied) == 0 {
		return 0, false
	}
	last := t.applied[len(t.applied)-1]
	if now.Sub(last) > contentionCooldown {
		t.contentions = 0
		t.applied = nil
		t.contention = nil
		return 0, false
	}
	if t.contentions == 0 && (len(t.applied) < contendedApplies || now.Sub(t.applied[0]) > contentionWindow) {
		return 0, false
	}
	t.contentions = max(t.contentions, 1)
	wait := backoff(t.contentions+4) - now.Sub(last)
	if wait <= 0 {
		t.contentions++
		return 0, false
	}
	return wait, true
}

// RecentContention returns the error to report for a converged child during a contention. It keeps an attempt from making
// the object ready for the short time until the next revert. It lasts as long as the delay before the attempt, and
// contentionHold at most.
func (p Tracker) RecentContention(a Key, now time.Time) error {
	t, ok := p.lookup(a)
	if !ok || t.contention == nil || len(t.applied) == 0 {
		return nil
	}
	remaining := min(backoff(t.contentions+3), contentionHold) - now.Sub(t.applied[len(t.applied)-1])
	if remaining <= 0 {
		return nil
	}
	return t.contention.Within(remaining)
}

// RecordContention records a contention with other managers and returns the error to report until the next attempt.
func (p Tracker) RecordContention(a Key, message string, wait time.Duration, now time.Time) error {
	t := p.entry(a)
	t.contention = &ReconcileError{Class: ClassContended, Reason: "Contended", Message: message, After: wait}
	t.notBefore = now.Add(wait)
	t.err = t.contention
	return t.err
}
