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

// This file decides when a step is over: when the operator is idle, and whether the state is the expected one.

// stepQuietPeriod is the time without activity after which the state counts as the outcome of a step. The longer
// finalQuietPeriod applies after the last step and after most faults. A reaction that comes later falls into the next
// step.
const stepQuietPeriod, finalQuietPeriod = 30 * time.Millisecond, 120 * time.Millisecond

// hasBeenIdle reports whether there was no activity for the quiet period, or for the duration of a few dozen requests if
// that is longer: on a busy machine a slow operator looks idle. idle returns the time without activity, and false while a
// request is in progress.
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

// measureLatency returns the duration of one request.
func (r *run) measureLatency(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := r.space.Client.Get(ctx, client.ObjectKey{Name: r.space.Namespace}, &corev1.Namespace{})
	pace := time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requestLatency = pace
	return pace, err
}

// isConvergedAndIdle reports whether the state is the expected one after a step, and the operator has been idle for as
// long as an unloaded machine requires.
func (r *run) isConvergedAndIdle(step int) bool {
	busy, idle := r.operator.Busy()
	if !r.x.oracleEnabled(oracleAtRest) || busy || idle < r.x.Rest || r.sinceLastChange() < r.x.Rest || !r.isRunning() {
		return false
	}
	right := step < len(r.x.Steps) || !r.hasResidue()
	if r.baseline != nil {
		right = r.notDeleted(step) == nil && r.diff(r.baseline.Checkpoints[step], r.state()) == ""
	}
	return right && r.checkStatus(step) == nil
}

// isStarved reports whether the machine is so busy that a slow operator proves nothing.
func (r *run) isStarved() bool {
	const much = 100 * time.Millisecond
	pace, err := r.measureLatency(r.space.Context())
	return err == nil && pace > much
}

// scaleForLoad returns the quiet period for a machine on which a request takes pace.
func (r *run) scaleForLoad(quiet, pace time.Duration) time.Duration {
	const few, dozens, part = 10, 40, 3
	if quiet < finalQuietPeriod {
		return max(quiet, few*pace)
	}
	return max(quiet, min(dozens*pace, r.x.Patience/part))
}

// withTimeout returns a context with the operator's timeout, extended on a busy machine.
func (r *run) withTimeout() (context.Context, context.CancelFunc) {
	const ordinary, most = 20 * time.Millisecond, 4
	r.mu.Lock()
	times := min(max(r.requestLatency/ordinary, 1), most)
	r.mu.Unlock()
	return context.WithTimeout(r.space.Context(), r.x.Patience*times) //nolint:durationcheck // times has no unit
}

// waitOperatorIdle waits until the operator has sent nothing for the quiet period, or returns the error of ctx.
func (r *run) waitOperatorIdle(ctx context.Context, quiet time.Duration) error {
	for idle := r.operatorIdle(); !r.hasBeenIdle(ctx, quiet, idle); {
		select {
		case <-time.After(stepQuietPeriod / 3):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// operatorIdle returns a function that reports how long the operator has sent nothing. If idle writes are allowed, this
// is the time since the call of operatorIdle. Periodic writes without an effect, at intervals longer than the quiet
// period, do not count.
func (r *run) operatorIdle() func() (idle time.Duration, still bool) {
	const often, forever = 2, time.Hour
	began := time.Now()
	var before time.Duration
	var strokes []time.Time // times of writes after a pause
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

// allIdle is like operatorIdle, but changes in the namespace count as activity, too.
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

// errBehind is returned if the history lags so far behind that nothing can be concluded.
var errBehind = errors.New("the machine is too busy to see what happens")

// awaitConvergence waits until the operator is idle after a step and the state equals the baseline's, if there is one. It
// reports whether the scenario continues.
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

// waitConverged waits for convergence until the operator's timeout. It reports whether the step is over and whether the
// scenario continues.
func (r *run) waitConverged(step int) (over, goesOn bool) {
	ctx, cancel := r.withTimeout()
	defer cancel()
	quiet := max(stepQuietPeriod, r.x.Guard)
	if step >= len(r.x.Steps)-1 || r.plan.ExtraQuiet {
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
		if r.isRunning() && r.hasBeenIdle(ctx, enough, idle) && r.diff(r.baseline.Checkpoints[step], r.state()) == "" &&
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
	diff, undead, falseStatus := r.diff(r.baseline.Checkpoints[step], r.state()), r.notDeleted(step), r.checkStatus(step)
	switch busy, idle := r.operator.Busy(); {
	case r.space.Context().Err() != nil:
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

// waitBaselineIdle is waitConverged for a baseline run: it waits until the operator is idle, and stores the state as the
// expected one.
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

// notDeleted reports a custom resource that still exists after all were deleted, or nil.
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

// hasResidue reports whether objects are left after the custom resources were deleted.
func (r *run) hasResidue() bool { return len(r.primaries())+len(r.residue()) > 0 }

// reportBaselineTimeout reports why a step of a baseline run was not over in time.
func (r *run) reportBaselineTimeout(step int) {
	idle, still := r.allIdle()()
	rests, over := !r.x.oracleEnabled(oracleAtRest) || still && idle >= r.x.Rest, step >= len(r.x.Steps)
	undead := r.notDeleted(step)
	switch falseStatus := cmp.Or(undead, r.checkStatus(step)); {
	case r.space.Context().Err() != nil:
	case undead != nil, rests && falseStatus != nil:
		r.addViolation(falseStatus.Oracle, falseStatus.Message, falseStatus.Detail)
	case rests && over && r.hasResidue(): // checkResidue reports it
	case rests:
		pace, _ := r.measureLatency(r.space.Context()) // for the message only
		r.infraErr = fmt.Errorf("%s nothing happens any more, but the machine is too busy to be sure of that: a request takes %v",
			r.after(step), pace)
	default:
		r.addViolation(oracleAtRest, fmt.Sprintf("%s the operator still writes, %v later: it never comes to rest",
			r.after(step), r.x.Patience), r.lastWrites(8))
	}
}

// hasPolled reports whether a polling operator has listed since the last change and had time to act on the result. An
// operator polls a kind if it lists the kind, does not watch it, and the scenario created objects of it. An operator that
// has not listed for a long time does not poll.
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

// sinceLastChange returns the time since the last change in the namespace. Events and periodic timestamps do not count.
func (r *run) sinceLastChange() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tracker.update(r.log.Changes())
	if r.tracker.lastChange.IsZero() {
		return time.Since(r.log.Began)
	}
	return time.Since(r.tracker.lastChange)
}

// isRunning reports whether the operator has a process and none has ended.
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

// watchesEstablished reports whether every process lists or watches all kinds of the baseline. With leader election, one
// process suffices. A false result is not final: some kinds may have been needed for deleted objects only.
func (r *run) watchesEstablished() bool {
	running, seeing := r.running(), 0
	for number := range running {
		if containsAll(r.operator.Opened(number), r.baseline.Opened) {
			seeing++
		}
	}
	return seeing == len(running) || r.plan.Elect && seeing > 0
}

func containsAll(have, want []intercept.Kind) bool {
	for _, k := range want {
		if !slices.Contains(have, k) {
			return false
		}
	}
	return true
}

// waitQuiet waits until the operator is idle with the events that it has received.
func (r *run) waitQuiet() {
	ctx, cancel := r.withTimeout()
	defer cancel()
	_ = r.waitOperatorIdle(ctx, max(finalQuietPeriod, r.x.Guard)) // a timeout is reported at the end of the step
}

// await waits until the history satisfies done. The limit is the timeout of the run.
func (r *run) await(done func() bool) {
	for {
		changed := r.log.Changed()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-r.space.Context().Done():
			return
		}
	}
}
