package explore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/quiescence"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// isConvergedAndIdle reports whether the state is the expected one after a step, and the operator has been idle for as
// long as an unloaded machine requires.
func (r *run) isConvergedAndIdle(step int) bool {
	busy, idle := r.operator.Busy()
	if !r.x.oracleEnabled(oracleAtRest) || busy || idle < r.x.QuietPeriod || r.idle.SinceLastChange() < r.x.QuietPeriod ||
		!r.procs.isRunning() {
		return false
	}
	right := step < len(r.x.Steps) || !r.hasResidue()
	if r.baseline != nil {
		right = r.notDeleted(step) == nil && r.diff(r.baseline.Checkpoints[step], r.state()) == ""
	}
	return right && r.checkStatus(step) == nil
}

// errHistoryLags is returned if the history lags so far behind that nothing can be concluded.
var errHistoryLags = errors.New("the machine is too busy to see what happens")

// awaitConvergence waits until the operator is idle after a step and the state equals the baseline's, if there is one. It
// reports whether the scenario continues.
func (r *run) awaitConvergence(step int) bool {
	waitStepEnd, reportTimeout := r.waitConverged, r.reportTimeout
	if r.baseline == nil {
		waitStepEnd, reportTimeout = r.waitBaselineIdle, r.reportBaselineTimeout
	}
	behind := false
	for range 4 {
		if over, goesOn := waitStepEnd(step); over {
			return goesOn
		}
		if behind = r.isBehind(); !behind && !r.idle.IsStarved() && !r.isConvergedAndIdle(step) {
			break
		}
	}
	if behind {
		r.abort(fmt.Errorf("%s %w", r.after(step), errHistoryLags))
		return false
	}
	reportTimeout(step)
	return false
}

// waitConverged waits for convergence until the operator's timeout. It reports whether the step is over and whether the
// scenario continues.
func (r *run) waitConverged(step int) (over, goesOn bool) {
	ctx, cancel := r.idle.WithTimeout()
	defer cancel()
	quiet := max(quiescence.StepQuietPeriod, r.x.StepQuietPeriod)
	if step >= len(r.x.Steps)-1 || r.plan.ExtraQuiet {
		quiet = max(quiescence.FinalQuietPeriod, r.x.StepQuietPeriod)
	}
	idle := r.idle.OperatorIdle()
	for {
		if r.procs.isDeletedWhileDown() {
			r.tearDown()
			return true, false
		}
		changed := r.log.Changed()
		enough := quiet
		if !r.watchesEstablished() || !r.matchesBaseline(step) {
			enough = max(quiet, r.x.QuietPeriod)
		}
		if r.procs.isRunning() && r.idle.HasBeenIdle(ctx, enough, idle) && r.diff(r.baseline.Checkpoints[step], r.state()) == "" &&
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
	diff, notDeleted, falseStatus := r.diff(r.baseline.Checkpoints[step], r.state()), r.notDeleted(step), r.checkStatus(step)
	switch busy, idle := r.operator.Busy(); {
	case r.space.Context().Err() != nil:
	case notDeleted != nil:
		r.addViolation(notDeleted.Oracle, notDeleted.Message, notDeleted.Detail)
	case diff != "":
		r.addViolation(oracleEndState, fmt.Sprintf(
			"%s the cluster is not what it is without the fault, %v later (-: without the fault, +: now)",
			r.after(step), r.x.Timeout), diff)
	case falseStatus != nil:
		r.addViolation(falseStatus.Oracle, falseStatus.Message, falseStatus.Detail)
	case r.procs.isRunning() || busy || idle < quiescence.StepQuietPeriod:
		r.addViolation(oracleAtRest, fmt.Sprintf("%s the operator does not come to rest", r.after(step)), r.lastWrites(5, r.began))
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
	ctx, cancel := r.idle.WithTimeout()
	defer cancel()
	idle := r.idle.AllIdle()
	for {
		rests := r.idle.HasBeenIdle(ctx, r.x.QuietPeriod, idle) && r.hasPolled()
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
			Message: fmt.Sprintf("%s is still there %v after it was deleted", r.name(c), r.x.Timeout),
		}
	}
	return nil
}

// hasResidue reports whether objects are left after the custom resources were deleted.
func (r *run) hasResidue() bool { return len(r.primaries())+len(r.residue()) > 0 }

// reportBaselineTimeout reports why a step of a baseline run was not over in time.
func (r *run) reportBaselineTimeout(step int) {
	idle, still := r.idle.AllIdle()()
	rests, over := !r.x.oracleEnabled(oracleAtRest) || still && idle >= r.x.QuietPeriod, step >= len(r.x.Steps)
	notDeleted := r.notDeleted(step)
	switch falseStatus := cmp.Or(notDeleted, r.checkStatus(step)); {
	case r.space.Context().Err() != nil:
	case notDeleted != nil, rests && falseStatus != nil:
		r.addViolation(falseStatus.Oracle, falseStatus.Message, falseStatus.Detail)
	case rests && over && r.hasResidue(): // checkResidue reports it
	case rests:
		pace, _ := r.idle.MeasureLatency(r.space.Context()) // for the message only
		r.abort(fmt.Errorf("%s nothing happens any more, but the machine is too busy to be sure of that: a request takes %v",
			r.after(step), pace))
	default:
		r.addViolation(oracleAtRest, fmt.Sprintf("%s the operator still writes, %v later: it never comes to rest",
			r.after(step), r.x.Timeout), r.lastWrites(8, r.began))
	}
}

// hasPolled reports whether a polling operator has listed since the last change and had time to act on the result. An
// operator polls a kind if it lists the kind, does not watch it, and the scenario created objects of it. An operator that
// has not listed for a long time does not poll.
func (r *run) hasPolled() bool {
	const long = 5
	since := r.idle.SinceLastChange()
	if since > long*r.x.QuietPeriod {
		return true
	}
	polled := map[intercept.GroupResource]bool{}
	for number := range r.procs.running() {
		watched := r.operator.Watched(number)
		for _, kind := range r.operator.Opened(number) {
			if !slices.Contains(watched, kind) && r.isPrimary(kind) {
				polled[kind] = true
			}
		}
	}
	now := time.Since(r.operator.Began())
	for _, c := range r.operator.Calls() {
		if c.Verb == "list" && c.Ended > 0 && now-c.Began < since && now-c.Ended >= r.x.QuietPeriod {
			delete(polled, intercept.GroupResourceOf(c.Request))
		}
	}
	return len(polled) == 0
}

// watchesEstablished reports whether every process lists or watches all kinds of the baseline. With leader election, one
// process suffices. A false result is not final: some kinds may have been needed for deleted objects only.
func (r *run) watchesEstablished() bool {
	running, seeing := r.procs.running(), 0
	for number := range running {
		if containsAll(r.operator.Opened(number), r.baseline.Opened) {
			seeing++
		}
	}
	return seeing == len(running) || r.plan.HasLeaderElection() && seeing > 0
}

func containsAll(have, want []intercept.GroupResource) bool {
	for _, k := range want {
		if !slices.Contains(have, k) {
			return false
		}
	}
	return true
}
