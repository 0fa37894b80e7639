package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// This file is about when a step is over: what is rest, and what should be there then.

// guard is for how long nothing may happen until what is there counts as what came of a step. A fault that strikes later
// than that strikes in the next step.
const guard, lastGuard = 30 * time.Millisecond, 120 * time.Millisecond

// still reports whether nothing has happened for the given time, and for as long as a few dozen requests take if that is
// more: on a busy machine an operator that is slow looks like one that has nothing to do. idle returns for how long
// nothing has happened, and false while something is under way.
func (r *run) still(ctx context.Context, quiet time.Duration, idle func() (time.Duration, bool)) bool {
	r.mu.Lock()
	pace := r.pace
	r.mu.Unlock()
	if got, ok := idle(); !ok || got < r.stretched(quiet, pace) {
		return false
	}
	pace, err := r.measure(ctx)
	if err != nil {
		return false
	}
	got, ok := idle()
	return ok && got >= r.stretched(quiet, pace) && r.sawWrites()
}

// measure returns how long a request takes now.
func (r *run) measure(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := r.k.Client.Get(ctx, client.ObjectKey{Name: r.k.Namespace}, &corev1.Namespace{})
	pace := time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pace = pace
	return pace, err //nolint:wrapcheck // only whether there is one matters
}

// isQuiet reports whether everything is as it should be after a step, and the operator has been silent for as long as would
// do if the machine were not busy.
func (r *run) isQuiet(step int) bool {
	busy, idle := r.wire.Busy()
	if !r.x.has(oracleAtRest) || busy || idle < r.x.Rest || r.unchanged() < r.x.Rest || !r.alive() {
		return false
	}
	right := step < len(r.x.Steps) || !r.isLeft()
	if r.known != nil {
		right = r.undead(step) == nil && r.diff(r.known.checkpoints[step], r.state()) == ""
	}
	return right && r.untrue(step) == nil
}

// isStarved reports whether the machine is so busy that an operator which has not got anywhere may be the last to blame.
func (r *run) isStarved() bool {
	const much = 100 * time.Millisecond
	pace, err := r.measure(r.k.Context())
	return err == nil && pace > much
}

// stretched is the time to wait on a machine on which a request takes as long as pace.
func (r *run) stretched(quiet, pace time.Duration) time.Duration {
	const few, dozens, part = 10, 40, 3
	if quiet < lastGuard {
		return max(quiet, few*pace)
	}
	return max(quiet, min(dozens*pace, r.x.Patience/part))
}

// patience is a context that ends when the operator has had its time, which is longer on a busy machine.
func (r *run) patience() (context.Context, context.CancelFunc) {
	const ordinary, most = 20 * time.Millisecond, 4
	r.mu.Lock()
	times := min(max(r.pace/ordinary, 1), most)
	r.mu.Unlock()
	return context.WithTimeout(r.k.Context(), r.x.Patience*times) //nolint:durationcheck // times has no unit
}

// rest waits until the operator has sent nothing for the given time, or returns ctx's error.
func (r *run) rest(ctx context.Context, quiet time.Duration) error {
	for idle := r.operatorIdle(); !r.still(ctx, quiet, idle); {
		select {
		case <-time.After(guard / 3): //nolint:mnd // often enough
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// operatorIdle tells for how long the operator has sent nothing. If it may write for ever, that is the time since now; if it
// writes by a clock, more slowly than counts as rest, and changes nothing by that, it has sent nothing that matters.
func (r *run) operatorIdle() func() (idle time.Duration, still bool) {
	const often, forever = 2, time.Hour
	began := time.Now()
	var before time.Duration
	var strokes []time.Time // when it wrote again after a pause
	return func() (time.Duration, bool) {
		if !r.x.has(oracleAtRest) {
			return time.Since(began), true
		}
		busy, idle := r.wire.Busy()
		if idle < before && before >= r.x.Rest {
			strokes = append(strokes, time.Now().Add(-idle))
		}
		before = idle
		if len(strokes) >= often && time.Since(strokes[len(strokes)-often]) < r.unchanged() {
			return forever, !busy
		}
		return idle, !busy
	}
}

// allIdle tells for how long, in addition, the namespace has not changed.
func (r *run) allIdle() func() (idle time.Duration, still bool) {
	operator := r.operatorIdle()
	return func() (time.Duration, bool) {
		idle, still := operator()
		if r.x.has(oracleAtRest) {
			idle = min(idle, r.unchanged())
		}
		return idle, still
	}
}

// errBehind is why nothing can be said about an operator.
var errBehind = errors.New("the machine is too busy to see what happens")

// settle waits until the operator is at rest after a step and, once it is known what should come of it, until it came of it.
func (r *run) settle(step int) bool {
	settles, wrong := r.settles, r.wrongEnd
	if r.known == nil {
		settles, wrong = r.settlesFirst, r.impatient
	}
	behind := false
	for range 4 {
		if over, goesOn := settles(step); over {
			return goesOn
		}
		if behind = r.isBehind(); !behind && !r.isStarved() && !r.isQuiet(step) {
			break
		}
	}
	if behind {
		r.broken = fmt.Errorf("%s %w", r.after(step), errBehind)
		return false
	}
	wrong(step)
	return false
}

// settles waits as long as the operator may take, and reports whether the step is over and whether the scenario goes on.
func (r *run) settles(step int) (over, goesOn bool) {
	ctx, cancel := r.patience()
	defer cancel()
	quiet := max(guard, r.x.Guard)
	if step >= len(r.x.Steps)-1 || r.plan.patient {
		quiet = max(lastGuard, r.x.Guard)
	}
	idle := r.operatorIdle()
	for {
		if r.isDead() {
			r.tearDown()
			return true, false
		}
		changed := r.log.Changed()
		enough := quiet
		if !r.sees() || !r.isThere(step) {
			enough = max(quiet, r.x.Rest)
		}
		if r.alive() && r.still(ctx, enough, idle) && r.diff(r.known.checkpoints[step], r.state()) == "" &&
			cmp.Or(r.untrue(step), r.undead(step)) == nil {
			return true, true
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return false, false
		}
	}
}

func (r *run) wrongEnd(step int) {
	diff, undead, lie := r.diff(r.known.checkpoints[step], r.state()), r.undead(step), r.untrue(step)
	switch busy, idle := r.wire.Busy(); {
	case r.k.Context().Err() != nil:
	case undead != nil:
		r.violate(undead.Oracle, undead.Message, undead.Detail)
	case diff != "":
		r.violate(oracleEndState, fmt.Sprintf(
			"%s the cluster is not what it is without the fault, %v later (-: without the fault, +: now)",
			r.after(step), r.x.Patience), diff)
	case lie != nil:
		r.violate(lie.Oracle, lie.Message, lie.Detail)
	case r.alive() || busy || idle < guard:
		r.violate(oracleAtRest, fmt.Sprintf("%s the operator does not come to rest", r.after(step)), r.lastWrites(5))
	default:
		r.violate(oracleExit, fmt.Sprintf("%s the operator does not run", r.after(step)), "")
	}
}

func (r *run) after(step int) string {
	if step >= len(r.x.Steps) {
		return "after the custom resources were deleted,"
	}
	return fmt.Sprintf("after step %q", r.x.Steps[step].Name)
}

// settlesFirst is settles as long as nothing is known: it waits for rest alone. What comes of the step is what is learned.
func (r *run) settlesFirst(step int) (over, goesOn bool) {
	ctx, cancel := r.patience()
	defer cancel()
	idle := r.allIdle()
	for {
		rests := r.still(ctx, r.x.Rest, idle) && r.looked()
		if rests && r.untrue(step) == nil && (step < len(r.x.Steps) || !r.isLeft()) && !r.isBehind() {
			r.checkpoints = append(r.checkpoints, r.state())
			r.children = append(r.children, r.childrenNow())
			return true, true
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return false, false
		}
	}
}

// undead says what of the custom resources is still there after all were deleted, or nil.
func (r *run) undead(step int) *report.Violation {
	if step < len(r.x.Steps) {
		return nil
	}
	for _, c := range r.primaries() {
		return &report.Violation{
			Oracle: oracleResidue, Detail: describe(c.Object),
			Message: fmt.Sprintf("%s is still there %v after it was deleted", r.name(c), r.x.Patience),
		}
	}
	return nil
}

// isLeft reports whether something is left after the custom resources were deleted.
func (r *run) isLeft() bool { return len(r.primaries())+len(r.residue()) > 0 }

// impatient says what was still wrong with a step when its time was up.
func (r *run) impatient(step int) {
	idle, still := r.allIdle()()
	rests, over := !r.x.has(oracleAtRest) || still && idle >= r.x.Rest, step >= len(r.x.Steps)
	undead := r.undead(step)
	switch lie := cmp.Or(undead, r.untrue(step)); {
	case r.k.Context().Err() != nil:
	case undead != nil, rests && lie != nil:
		r.violate(lie.Oracle, lie.Message, lie.Detail)
	case rests && over && r.isLeft(): // it is judged with the whole run
	case rests:
		pace, _ := r.measure(r.k.Context()) // it is for the reader
		r.broken = fmt.Errorf("%s nothing happens any more, but the machine is too busy to be sure of that: a request takes %v",
			r.after(step), pace)
	default:
		r.violate(oracleAtRest, fmt.Sprintf("%s the operator still writes, %v later: it never comes to rest",
			r.after(step), r.x.Patience), r.lastWrites(8))
	}
}

// looked reports whether an operator that polls has looked since something changed, and had time to act on that: it lists a
// kind of objects that the scenario made, and does not watch it. Who has not done so for long does not poll.
func (r *run) looked() bool {
	const long = 5
	since := r.unchanged()
	if since > long*r.x.Rest {
		return true
	}
	polled := map[intercept.Kind]bool{}
	for number := range r.running() {
		watched := r.wire.Watched(number)
		for _, kind := range r.wire.Opened(number) {
			if !slices.Contains(watched, kind) && r.isPrimary(kind) {
				polled[kind] = true
			}
		}
	}
	now := time.Since(r.wire.Began())
	for _, c := range r.wire.Calls() {
		if c.Verb == "list" && c.Ended > 0 && now-c.Began < since && now-c.Ended >= r.x.Rest {
			delete(polled, intercept.KindOf(c.Request))
		}
	}
	return len(polled) == 0
}

// unchanged is for how long the namespace has not changed, apart from Events and from the times that a clock sets.
func (r *run) unchanged() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news.update(r.log.Changes())
	if r.news.at.IsZero() {
		return time.Since(r.log.Began)
	}
	return time.Since(r.news.at)
}

// alive reports whether there is an incarnation and none has ended.
func (r *run) alive() bool {
	r.mu.Lock()
	restarting := r.restarting
	r.mu.Unlock()
	if restarting > 0 {
		return false
	}
	running := r.running()
	for _, p := range running {
		select {
		case <-p.Done():
			return false
		default:
		}
	}
	return len(running) > 0
}

// sees reports whether every incarnation looks at what it looks at without a fault; of several that elect a leader, one. It
// may be that it looked at something only for objects that are gone.
func (r *run) sees() bool {
	running, seeing := r.running(), 0
	for number := range running {
		if covers(r.wire.Opened(number), r.known.opened) {
			seeing++
		}
	}
	return seeing == len(running) || r.plan.elect && seeing > 0
}

func covers(have, want []intercept.Kind) bool {
	for _, k := range want {
		if !slices.Contains(have, k) {
			return false
		}
	}
	return true
}
