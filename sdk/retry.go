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

// about says what a trouble is about: one intent for one instance of a child, whose UID is "" if there is none yet.
type about struct {
	child  childID
	uid    types.UID
	digest string
}

// trouble is what is remembered of a child that the API server refused or that somebody keeps reverting, so that the
// operator neither gives up nor floods the server. A new intent and a new instance start without it.
type trouble struct {
	about    about
	until    time.Time // no request before then
	err      *problem  // what to report until then
	refusals int
	applied  []time.Time // the last applies of this very intent, newest last
	fights   int
	fight    *problem // nil in peace
}

const (
	// A fight is this many applies of one and the same intent within the window: each of them was undone by somebody.
	fightApplies = 4
	fightWindow  = time.Minute
	// peace ends a fight: nobody reverted us for so long.
	peace = 10 * time.Minute
	// truceLimit is the longest that a fight is still reported after an apply that nobody has reverted.
	truceLimit = 10 * time.Second
)

// patience keeps the troubles of one object's children. It is used by one pass at a time.
type patience map[childID]*trouble

// check returns the error to report instead of making a request, or nil if a request may be made. The error carries the
// time that is left.
func (p patience) check(a about, now time.Time) error {
	t, ok := p.known(a)
	if !ok || !now.Before(t.until) {
		return nil
	}
	return t.err.within(t.until.Sub(now))
}

// within returns the problem as it is when only this time is left.
func (p *problem) within(left time.Duration) error {
	rest := *p
	rest.after = left
	return &rest
}

func (p patience) known(a about) (*trouble, bool) {
	t, ok := p[a.child]
	return t, ok && t.about == a
}

func (p patience) of(a about) *trouble {
	t, ok := p.known(a)
	if !ok {
		t = &trouble{about: a}
		p[a.child] = t
	}
	return t
}

// refused notes a refusal and returns the error to report: it carries the time of the next attempt.
func (p patience) refused(a about, err *problem, now time.Time) error {
	t := p.of(a)
	t.refusals++
	// The first retry comes after 0.8 s: a refusal is seldom a matter of milliseconds.
	err.after = backoff(t.refusals + 3)
	t.until, t.err = now.Add(err.after), err
	return err
}

// applied notes that an intent was carried out.
func (p patience) applied(a about, now time.Time) {
	t := p.of(a)
	t.refusals, t.err, t.until = 0, nil, time.Time{}
	t.applied = append(t.applied, now)
	if len(t.applied) > fightApplies {
		t.applied = slices.Delete(t.applied, 0, len(t.applied)-fightApplies)
	}
}

// fighting reports whether the same intent was applied so often of late that somebody must be reverting it, and after
// how long the next attempt may be made.
func (p patience) fighting(a about, now time.Time) (time.Duration, bool) {
	t, ok := p.known(a)
	if !ok || len(t.applied) == 0 {
		return 0, false
	}
	last := t.applied[len(t.applied)-1]
	if now.Sub(last) > peace {
		t.fights, t.applied, t.fight = 0, nil, nil
		return 0, false
	}
	if t.fights == 0 && (len(t.applied) < fightApplies || now.Sub(t.applied[0]) > fightWindow) {
		return 0, false
	}
	t.fights = max(t.fights, 1)
	wait := backoff(t.fights+4) - now.Sub(last)
	if wait <= 0 {
		t.fights++
		return 0, false
	}
	return wait, true
}

// truce is what to report of a child that is as it should be while a fight goes on: the attempts of a fight are not to
// make the object ready for the moment until the next revert. It lasts as long as the wait before the attempt, and
// truceLimit at most.
func (p patience) truce(a about, now time.Time) error {
	t, ok := p.known(a)
	if !ok || t.fight == nil || len(t.applied) == 0 {
		return nil
	}
	rest := min(backoff(t.fights+3), truceLimit) - now.Sub(t.applied[len(t.applied)-1]) //nolint:mnd // of the attempt before
	if rest <= 0 {
		return nil
	}
	return t.fight.within(rest)
}

// contend checks for a fight before an update and names the rivals.
func (e *engine[T]) contend(ctx context.Context, p *Pass[T], s *step, i *apply.Intent) error {
	wait, fighting := p.troubles.fighting(s.about(i), p.Now)
	if !fighting {
		return nil
	}
	// The cache keeps only our own managedFields entry, so the rivals' names cost one request in each fight.
	live, rivals := object.Empty(s.desired), "somebody"
	if err := e.client.Get(ctx, client.ObjectKeyFromObject(s.live), live); err == nil {
		if names := i.ConflictingManagers(live, e.owner.Name()); len(names) > 0 {
			rivals = strings.Join(names, ", ")
		}
	}
	t := p.troubles.of(s.about(i))
	message := fmt.Sprintf("%s is changed back again and again by %s: let one of the two manage it", s, rivals)
	t.fight = &problem{class: classContended, reason: conditionContended, message: message, after: wait}
	t.until, t.err = p.Now.Add(wait), t.fight
	return t.err
}
