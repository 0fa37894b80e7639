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

// stepQuietPeriod is for how long nothing may happen until what is there counts as what came of a step. A fault that strikes later
// than that strikes in the next step.
const stepQuietPeriod, finalQuietPeriod = 30 * time.Millisecond, 120 * time.Millisecond

// hasBeenIdle reports whether nothing has happened for the given time, and for as long as a few dozen requests take if that is
// more: on a busy machine an operator that is slow looks like one that has nothing to do. idle returns for how long
// nothing has happened, and false while something is under way.
func (r *run) hasBeenIdle(ctx context.Context, quiet time.Duration, idle func() (time.Duration, bool)) bool {
	r.mu.Lock()
	pace := r.requestLatency
	r.mu.Unlock()
	if got, ok := idle(); !ok || got < r.scaleForLoad(quiet, pace) {
		return false
	}
	pace, err := r.measureLatency(ctx)
	if err != nil {
		return false
	}
	got, ok := idle()
	return ok && got >= r.scaleForLoad(quiet, pace) && r.historyShowsWrites()
}

// measureLatency returns how long a request takes now.
func (r *run) measureLatency(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := r.k.Client.Get(ctx, client.ObjectKey{Name: r.k.Namespace}, &corev1.Namespace{})
	pace := time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requestLatency = pace
	return pace, err //nolint:wrapcheck // only whether there is one matters
}

// isConvergedAndIdle reports whether everything is as it should be after a step, and the operator has been silent for as long as would
// do if the machine were not busy.
func (r *run) isConvergedAndIdle(step int) bool {
	busy, idle := r.operator.Busy()
	if !r.x.oracleEnabled(oracleAtRest) || busy || idle < r.x.Rest || r.sinceLastChange() < r.x.Rest || !r.isRunning() {
		return false
	}
	right := step < len(r.x.Steps) || !r.hasResidue()
	if r.baseline != nil {
		right = r.notDeleted(step) == nil && r.diff(r.baseline.checkpoints[step], r.state()) == ""
	}
	return right && r.checkStatus(step) == nil
}

// isStarved reports whether the machine is so busy that an operator which has not got anywhere may be the last to blame.
func (r *run) isStarved() bool {
	const much = 100 * time.Millisecond
	pace, err := r.measureLatency(r.k.Context())
	return err == nil && pace > much
}

// scaleForLoad is the time to wait on a machine on which a request takes as long as pace.
func (r *run) scaleForLoad(quiet, pace time.Duration) time.Duration {
	const few, dozens, part = 10, 40, 3
	if quiet < finalQuietPeriod {
		return max(quiet, few*pace)
	}
	return max(quiet, min(dozens*pace, r.x.Patience/part))
}

// withTimeout is a context that ends when the operator has had its time, which is longer on a busy machine.
func (r *run) withTimeout() (context.Context, context.CancelFunc) {
	const ordinary, most = 20 * time.Millisecond, 4
	r.mu.Lock()
	times := min(max(r.requestLatency/ordinary, 1), most)
	r.mu.Unlock()
	return context.WithTimeout(r.k.Context(), r.x.Patience*times) //nolint:durationcheck // times has no unit
}

// waitOperatorIdle waits until the operator has sent nothing for the given time, or returns ctx's error.
func (r *run) waitOperatorIdle(ctx context.Context, quiet time.Duration) error {
	for idle := r.operatorIdle(); !r.hasBeenIdle(ctx, quiet, idle); {
		select {
		case <-time.After(stepQuietPeriod / 3): //nolint:mnd // often enough
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
		if !r.x.oracleEnabled(oracleAtRest) {
			return time.Since(began), true
		}
		busy, idle := r.operator.Busy()
		if idle < before && before >= r.x.Rest {
			strokes = append(strokes, time.Now().Add(-idle))
		}
		before = idle
		if len(strokes) >= often && time.Since(strokes[len(strokes)-often]) < r.sinceLastChange() {
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
		if r.x.oracleEnabled(oracleAtRest) {
			idle = min(idle, r.sinceLastChange())
		}
		return idle, still
	}
}

// errBehind is why nothing can be said about an operator.
var errBehind = errors.New("the machine is too busy to see what happens")

// awaitConvergence waits until the operator is at rest after a step and, once it is known what should come of it, until it came of it.
func (r *run) awaitConvergence(step int) bool {
	settles, wrong := r.waitConverged, r.reportTimeout
	if r.baseline == nil {
		settles, wrong = r.waitBaselineIdle, r.reportBaselineTimeout
	}
	behind := false
	for range 4 {
		if over, goesOn := settles(step); over {
			return goesOn
		}
		if behind = r.isBehind(); !behind && !r.isStarved() && !r.isConvergedAndIdle(step) {
			break
		}
	}
	if behind {
		r.infraErr = fmt.Errorf("%s %w", r.after(step), errBehind)
		return false
	}
	wrong(step)
	return false
}

// waitConverged waits as long as the operator may take, and reports whether the step is over and whether the scenario goes on.
func (r *run) waitConverged(step int) (over, goesOn bool) {
	ctx, cancel := r.withTimeout()
	defer cancel()
	quiet := max(stepQuietPeriod, r.x.Guard)
	if step >= len(r.x.Steps)-1 || r.plan.extraQuiet {
		quiet = max(finalQuietPeriod, r.x.Guard)
	}
	idle := r.operatorIdle()
	for {
		if r.isDeletedWhileDown() {
			r.tearDown()
			return true, false
		}
		changed := r.log.Changed()
		enough := quiet
		if !r.watchesEstablished() || !r.matchesBaseline(step) {
			enough = max(quiet, r.x.Rest)
		}
		if r.isRunning() && r.hasBeenIdle(ctx, enough, idle) && r.diff(r.baseline.checkpoints[step], r.state()) == "" &&
			cmp.Or(r.checkStatus(step), r.notDeleted(step)) == nil {
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

func (r *run) reportTimeout(step int) {
	diff, undead, falseStatus := r.diff(r.baseline.checkpoints[step], r.state()), r.notDeleted(step), r.checkStatus(step)
	switch busy, idle := r.operator.Busy(); {
	case r.k.Context().Err() != nil:
	case undead != nil:
		r.addViolation(undead.Oracle, undead.Message, undead.Detail)
	case diff != "":
		r.addViolation(oracleEndState, fmt.Sprintf(
			"%s the cluster is not what it is without the fault, %v later (-: without the fault, +: now)",
			r.after(step), r.x.Patience), diff)
	case falseStatus != nil:
		r.addViolation(falseStatus.Oracle, falseStatus.Message, falseStatus.Detail)
	case r.isRunning() || busy || idle < stepQuietPeriod:
		r.addViolation(oracleAtRest, fmt.Sprintf("%s the operator does not come to rest", r.after(step)), r.lastWrites(5))
	default:
		r.addViolation(oracleExit, fmt.Sprintf("%s the operator does not run", r.after(step)), "")
	}
}

func (r *run) after(step int) string {
	if step >= len(r.x.Steps) {
		return "after the custom resources were deleted,"
	}
	return fmt.Sprintf("after step %q", r.x.Steps[step].Name)
}

// waitBaselineIdle is settles as long as nothing is known: it waits for rest alone. What comes of the step is what is learned.
func (r *run) waitBaselineIdle(step int) (over, goesOn bool) {
	ctx, cancel := r.withTimeout()
	defer cancel()
	idle := r.allIdle()
	for {
		rests := r.hasBeenIdle(ctx, r.x.Rest, idle) && r.hasPolled()
		if rests && r.checkStatus(step) == nil && (step < len(r.x.Steps) || !r.hasResidue()) && !r.isBehind() {
			r.checkpoints = append(r.checkpoints, r.state())
			r.children = append(r.children, r.currentChildren())
			return true, true
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return false, false
		}
	}
}

// notDeleted says what of the custom resources is still there after all were deleted, or nil.
func (r *run) notDeleted(step int) *report.Violation {
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

// hasResidue reports whether something is left after the custom resources were deleted.
func (r *run) hasResidue() bool { return len(r.primaries())+len(r.residue()) > 0 }

// reportBaselineTimeout says what was still wrong with a step when its time was up.
func (r *run) reportBaselineTimeout(step int) {
	idle, still := r.allIdle()()
	rests, over := !r.x.oracleEnabled(oracleAtRest) || still && idle >= r.x.Rest, step >= len(r.x.Steps)
	undead := r.notDeleted(step)
	switch falseStatus := cmp.Or(undead, r.checkStatus(step)); {
	case r.k.Context().Err() != nil:
	case undead != nil, rests && falseStatus != nil:
		r.addViolation(falseStatus.Oracle, falseStatus.Message, falseStatus.Detail)
	case rests && over && r.hasResidue(): // it is judged with the whole run
	case rests:
		pace, _ := r.measureLatency(r.k.Context()) // it is for the reader
		r.infraErr = fmt.Errorf("%s nothing happens any more, but the machine is too busy to be sure of that: a request takes %v",
			r.after(step), pace)
	default:
		r.addViolation(oracleAtRest, fmt.Sprintf("%s the operator still writes, %v later: it never comes to rest",
			r.after(step), r.x.Patience), r.lastWrites(8))
	}
}

// hasPolled reports whether an operator that polls has looked since something changed, and had time to act on that: it lists a
// kind of objects that the scenario made, and does not watch it. Who has not done so for long does not poll.
func (r *run) hasPolled() bool {
	const long = 5
	since := r.sinceLastChange()
	if since > long*r.x.Rest {
		return true
	}
	polled := map[intercept.Kind]bool{}
	for number := range r.running() {
		watched := r.operator.Watched(number)
		for _, kind := range r.operator.Opened(number) {
			if !slices.Contains(watched, kind) && r.isPrimary(kind) {
				polled[kind] = true
			}
		}
	}
	now := time.Since(r.operator.Began())
	for _, c := range r.operator.Calls() {
		if c.Verb == "list" && c.Ended > 0 && now-c.Began < since && now-c.Ended >= r.x.Rest {
			delete(polled, intercept.KindOf(c.Request))
		}
	}
	return len(polled) == 0
}

// sinceLastChange is for how long the namespace has not changed, apart from Events and from the times that a clock sets.
func (r *run) sinceLastChange() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tracker.update(r.log.Changes())
	if r.tracker.lastChange.IsZero() {
		return time.Since(r.log.Began)
	}
	return time.Since(r.tracker.lastChange)
}

// isRunning reports whether there is an incarnation and none has ended.
func (r *run) isRunning() bool {
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

// watchesEstablished reports whether every incarnation looks at what it looks at without a fault; of several that elect a leader, one. It
// may be that it looked at something only for objects that are gone.
func (r *run) watchesEstablished() bool {
	running, seeing := r.running(), 0
	for number := range running {
		if containsAll(r.operator.Opened(number), r.baseline.opened) {
			seeing++
		}
	}
	return seeing == len(running) || r.plan.elect && seeing > 0
}

func containsAll(have, want []intercept.Kind) bool {
	for _, k := range want {
		if !slices.Contains(have, k) {
			return false
		}
	}
	return true
}
