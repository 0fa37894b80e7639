package explore

import (
	"cmp"
	"context"
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
		right = r.unlessKnown(r.notDeleted(step, 0)) == nil && r.diff(step) == ""
	}
	return right && r.unlessKnown(r.checkStatus(step)) == nil
}

// errHistoryLags is returned if the history lags so far behind that nothing can be concluded.
var errHistoryLags = errors.New("the machine is too busy to see what happens")

// awaitConvergence waits until the operator is idle after a step and the state equals the baseline's, if there is one. It
// reports whether the scenario continues.
func (r *run) awaitConvergence(step int) bool {
	waitStepEnd := r.waitConverged
	if r.baseline == nil {
		waitStepEnd = r.waitBaselineIdle
	}
	began := time.Now()
	behind := false
	for range 4 {
		if over, goesOn := waitStepEnd(step); over {
			if goesOn {
				r.checkIdle(step)
			}
			return goesOn
		}
		if behind = r.isBehind(); !behind && !r.idle.IsStarved() && !r.operator.Initializing() && !r.isConvergedAndIdle(step) {
			break
		}
	}
	if behind {
		r.abort(fmt.Errorf("%s %w", r.after(step), errHistoryLags))
		return false
	}
	waited := min(time.Since(began).Round(time.Second), r.x.Timeout)
	if r.baseline == nil {
		return r.reportBaselineTimeout(step, waited)
	}
	r.reportTimeout(step, waited)
	return false
}

// waitConverged waits for convergence until the operator's timeout. It reports whether the step is over and whether the
// scenario continues.
func (r *run) waitConverged(step int) (over, goesOn bool) {
	ctx, cancel := r.idle.WithTimeout()
	defer cancel()
	quiet := max(quiescence.StepQuietPeriod, r.x.StepQuietPeriod)
	if (step >= len(r.x.Steps)-1 || r.plan.ExtraQuiet) && !r.moreTriggers {
		quiet = max(quiescence.FinalQuietPeriod, r.x.StepQuietPeriod)
	}
	idle, allIdle := r.idle.OperatorIdle(), r.idle.AllIdle()
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
		enough = r.untilReaction(enough)
		if r.procs.isRunning() && r.idle.HasBeenIdle(ctx, enough, idle) && r.isRight(step) {
			r.foreign.setAwaited()
			return true, true
		}
		if r.isFinallyWrong(ctx, step, allIdle) {
			return false, false
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return false, false
		}
	}
}

// isFinallyWrong reports whether the operator will not change a state that is wrong.
func (r *run) isFinallyWrong(ctx context.Context, step int, idle func() (time.Duration, bool)) bool {
	return r.isFinal(ctx, step, idle) && !r.isRight(step)
}

// isRight reports whether the state after a step is the baseline's and no rule for an idle operator is violated.
func (r *run) isRight(step int) bool {
	return r.diff(step) == "" && r.unlessKnown(r.checkStatus(step)) == nil && r.unlessKnown(r.notDeleted(step, 0)) == nil
}

// reportTimeout reports why a step was not over after this time.
func (r *run) reportTimeout(step int, waited time.Duration) {
	diff := r.diff(step)
	notDeleted, falseStatus := r.unlessKnown(r.notDeleted(step, waited)), r.unlessKnown(r.checkStatus(step))
	if diff != "" && waited >= r.x.Timeout && r.space.Context().Err() == nil {
		r.x.persistent.add(r.difference(step))
	}
	switch busy, idle := r.operator.Busy(); {
	case r.space.Context().Err() != nil:
	case notDeleted != nil:
		r.addViolation(notDeleted.Oracle, notDeleted.Message, notDeleted.Detail)
	case diff != "":
		r.addViolation(oracleEndState, fmt.Sprintf(
			"%s the cluster is not what it is without the fault, %v later (-: without the fault, +: now)",
			r.after(step), waited)+r.freshNote(step, r.state()), diff)
	case falseStatus != nil:
		r.addViolation(falseStatus.Oracle, falseStatus.Message, falseStatus.Detail)
	case r.procs.isRunning() || busy || idle < quiescence.StepQuietPeriod:
		r.addViolation(oracleAtRest, fmt.Sprintf("%s the operator does not come to rest", r.after(step)),
			r.lastWrites(5, r.began)+"\n"+r.operator.Activity())
	default:
		r.addViolation(oracleExit, fmt.Sprintf("%s the operator does not run", r.after(step)), "")
	}
}

func (r *run) after(step int) string {
	if step >= len(r.x.Steps) {
		return "after the custom resources were deleted,"
	}
	if r.reactsTo != "" {
		return fmt.Sprintf("after step %q and %s,", r.x.Steps[step].Name, r.reactsTo)
	}
	return fmt.Sprintf("after step %q", r.x.Steps[step].Name)
}

// waitBaselineIdle is waitConverged for a baseline run: it waits until the operator is idle, and stores the state as the
// expected one.
func (r *run) waitBaselineIdle(step int) (over, goesOn bool) {
	ctx, cancel := r.idle.WithTimeout()
	defer cancel()
	idle, began := r.idle.AllIdle(), time.Now()
	for {
		rests := r.idle.HasBeenIdle(ctx, max(r.x.QuietPeriod, r.startQuietPeriod()), idle) && r.hasPolled()
		if rests && r.unlessKnown(r.checkStatus(step)) == nil && (step < len(r.x.Steps) || !r.hasResidue()) && !r.isBehind() {
			r.addCheckpoint()
			r.longestStep = max(r.longestStep, time.Since(began)-r.idle.SinceLastChange())
			return true, true
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return false, false
		}
	}
}

// addCheckpoint stores the state after a step of a baseline run.
func (r *run) addCheckpoint() {
	r.checkpoints = append(r.checkpoints, r.state())
	r.children = append(r.children, r.currentChildren())
	r.inputs = append(r.inputs, r.currentInputs())
	r.stepFieldsAt = append(r.stepFieldsAt, r.stepFields())
	r.addedFieldsAt = append(r.addedFieldsAt, r.addedFields())
	r.metadataFieldsAt = append(r.metadataFieldsAt, r.metadataFields())
	r.podsAt = append(r.podsAt, r.currentPods())
}

// notDeleted reports a custom resource that still exists this time after all were deleted, or nil.
func (r *run) notDeleted(step int, waited time.Duration) *report.Violation {
	if step < len(r.x.Steps) {
		return nil
	}
	left := r.primaries()
	switch {
	case len(left) == 0:
		return r.residueBesideForeign()
	case r.waitsForForeign(left[0]):
		return nil
	}
	return &report.Violation{
		Oracle: oracleResidue, Detail: describe(left[0].Object),
		Message: fmt.Sprintf("%s is still there %v after it was deleted", r.name(left[0]), waited),
	}
}

// hasResidue reports whether objects, or entries of external services, are left after the custom resources were deleted.
func (r *run) hasResidue() bool {
	service, _ := r.externals.residue()
	return len(r.primaries())+len(r.residue()) > 0 || service != ""
}

// reportBaselineTimeout reports why a step of a baseline run was not over in time, and whether the scenario continues. It
// does if the operator is idle: then the state is what the faults are compared with, although a rule is violated.
func (r *run) reportBaselineTimeout(step int, waited time.Duration) (goesOn bool) {
	busy, idle := r.operator.Busy()
	rests := !r.x.oracleEnabled(oracleAtRest) || !busy && min(idle, r.idle.SinceLastChange()) >= r.x.QuietPeriod
	over := step >= len(r.x.Steps)
	notDeleted := r.notDeleted(step, waited)
	switch falseStatus := cmp.Or(notDeleted, r.unlessKnown(r.checkStatus(step))); {
	case r.space.Context().Err() != nil:
		return false
	case notDeleted != nil, rests && falseStatus != nil:
		r.addViolation(falseStatus.Oracle, falseStatus.Message, falseStatus.Detail)
	case rests && over && r.hasResidue(): // checkResidue reports it
	case rests:
		pace, _ := r.idle.MeasureLatency(r.space.Context()) // for the message only
		r.abort(fmt.Errorf("%s nothing happens any more, but the machine is too busy to be sure of that: a request takes %v",
			r.after(step), pace))
	default:
		r.addViolation(oracleAtRest, fmt.Sprintf("%s the operator still writes, %v later: it never comes to rest",
			r.after(step), waited), r.lastWrites(8, r.began))
		return false
	}
	if !rests || r.infraError() != nil {
		return false
	}
	r.addCheckpoint()
	return !r.x.StopAtFailure
}

// hasPolled reports whether each process has listed or watched a kind, and a polling operator has listed since the last
// change and had time to act on the result. An operator polls a kind if it lists the kind, does not watch it, and the
// scenario created objects of it. An operator that has not listed for a long time does not poll.
func (r *run) hasPolled() bool {
	const long = 5
	since := r.idle.SinceLastChange()
	if since > long*r.x.QuietPeriod {
		return true
	}
	polled := map[intercept.GroupResource]bool{}
	for number := range r.procs.running() {
		watched, opened := r.operator.Watched(number), r.operator.Opened(number)
		if len(opened) == 0 {
			return false // it may be slow to start
		}
		for _, kind := range opened {
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
