package sdk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// retryKey identifies one intent for one instance of a child. The UID is "" before the creation.
type retryKey struct {
	child  childID
	uid    types.UID
	digest string
}

// childRetry is the retry state of a child that the API server rejected, or that another manager reverts. It keeps the
// operator from giving up and from flooding the API server. A new intent and a new instance start without it.
type childRetry struct {
	key         retryKey
	notBefore   time.Time // no request before then
	err         *problem  // the error to report until then
	rejections  int
	applied     []time.Time // the last applies of this intent, newest last
	contentions int
	contention  *problem // nil without contention
}

const (
	// Contention means this many applies of the same intent within the window: another manager reverted each of them.
	contendedApplies = 4
	contentionWindow = time.Minute
	// contentionCooldown ends a contention: no apply was needed for this time.
	contentionCooldown = 10 * time.Minute
	// contentionHold is the longest time for which a contention is still reported after an apply that was not reverted.
	contentionHold = 10 * time.Second
)

// retryTracker holds the retry state of one object's children. It is used by one reconcile at a time.
type retryTracker map[childID]*childRetry

// check returns the error to report instead of making a request, or nil if a request may be made. The error carries the
// remaining time.
func (p retryTracker) check(a retryKey, now time.Time) error {
	t, ok := p.lookup(a)
	if !ok || !now.Before(t.notBefore) {
		return nil
	}
	return t.err.within(t.notBefore.Sub(now))
}

// within returns a copy of the problem with this remaining time.
func (p *problem) within(left time.Duration) error {
	remaining := *p
	remaining.after = left
	return &remaining
}

func (p retryTracker) lookup(a retryKey) (*childRetry, bool) {
	t, ok := p[a.child]
	return t, ok && t.key == a
}

func (p retryTracker) entry(a retryKey) *childRetry {
	t, ok := p.lookup(a)
	if !ok {
		t = &childRetry{key: a}
		p[a.child] = t
	}
	return t
}

// rejected records a rejection and returns the error to report: it carries the time of the next attempt.
func (p retryTracker) rejected(a retryKey, err *problem, now time.Time) error {
	t := p.entry(a)
	t.rejections++
	// The first retry comes after 0.8 s: a rejection rarely ends within milliseconds.
	err.after = backoff(t.rejections + 3)
	t.notBefore = now.Add(err.after)
	t.err = err
	return err
}

// applied records that an intent was applied.
func (p retryTracker) applied(a retryKey, now time.Time) {
	t := p.entry(a)
	t.rejections = 0
	t.err = nil
	t.notBefore = time.Time{}
	t.applied = append(t.applied, now)
	if len(t.applied) > contendedApplies {
		t.applied = slices.Delete(t.applied, 0, len(t.applied)-contendedApplies)
	}
}

// contended reports whether the same intent was applied so often that another manager must be reverting it, and the delay
// until the next attempt.
func (p retryTracker) contended(a retryKey, now time.Time) (time.Duration, bool) {
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

// recentlyContended returns the error to report for a converged child during a contention. It keeps an attempt from making
// the object ready for the short time until the next revert. It lasts as long as the delay before the attempt, and
// contentionHold at most.
func (p retryTracker) recentlyContended(a retryKey, now time.Time) error {
	t, ok := p.lookup(a)
	if !ok || t.contention == nil || len(t.applied) == 0 {
		return nil
	}
	remaining := min(backoff(t.contentions+3), contentionHold) - now.Sub(t.applied[len(t.applied)-1])
	if remaining <= 0 {
		return nil
	}
	return t.contention.within(remaining)
}

// checkContention checks for a contention before an update and names the conflicting managers.
func (e *engine[T]) checkContention(ctx context.Context, p *Pass[T], s *plannedChild, i *apply.Intent) error {
	wait, contended := p.retries.contended(s.retryKey(i), p.Now)
	if !contended {
		return nil
	}
	// The cache keeps only our own managedFields entry, so the names of the other managers cost one request in each
	// contention.
	live, managers := object.Empty(s.desired), "somebody"
	if err := e.client.Get(ctx, client.ObjectKeyFromObject(s.live), live); err == nil {
		if names := i.ConflictingManagers(live, e.owner.Name()); len(names) > 0 {
			managers = strings.Join(names, ", ")
		}
	}
	t := p.retries.entry(s.retryKey(i))
	message := fmt.Sprintf("%s is changed back again and again by %s: let one of the two manage it", s, managers)
	t.contention = &problem{class: classContended, reason: conditionContended, message: message, after: wait}
	t.notBefore = p.Now.Add(wait)
	t.err = t.contention
	return t.err
}
