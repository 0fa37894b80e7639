package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/quiescence"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// baselineRuns is the number of baseline runs. maxBaselineRuns is the number if these disagree on creations and
// deletions.
const baselineRuns, maxBaselineRuns = 3, baseline.ManyRuns

// RunBaseline performs the baseline runs. If one of them fails, there is nothing to compare faults with, and no plan can be
// tried, unless it fails only because the operator writes outside of the namespace.
func (x *Explorer) RunBaseline(ctx context.Context) ([]report.Run, error) {
	runs, err := x.runBaselines(ctx, 0, baselineRuns)
	if err == nil && !failed(runs) && x.findGeneratedNames(runs) { // needed from the first state on
		runs, err = x.runBaselines(ctx, 0, baselineRuns)
	}
	if err == nil && !failed(runs) && !countsAgree(runs) {
		var more []*run
		more, err = x.runBaselines(ctx, baselineRuns, maxBaselineRuns)
		runs = append(runs, more...)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("learning what happens without a fault: %w", ctx.Err())
	}
	reports := make([]report.Run, 0, len(runs))
	for _, r := range runs {
		reports = append(reports, r.report())
	}
	switch {
	case err != nil || failed(runs):
	case slices.ContainsFunc(runs, func(r *run) bool { return !r.isTornDown() }):
		err = errors.New("learning what happens without a fault: what ended a run early is not held against the operator, " +
			"so that there is nothing to compare with: switch fewer oracles off")
	default:
		x.baseline = newBaseline(runs)
	}
	return reports, err
}

// findGeneratedNames reports whether the operator generates names, and stores their prefixes.
func (x *Explorer) findGeneratedNames(runs []*run) (found bool) {
	x.generated = state.GeneratedNames{}
	for _, b := range runs[1:] {
		for i, a := range runs[0].checkpoints {
			if i < len(b.checkpoints) {
				found = x.generated.AddDifferences(a, b.checkpoints[i]) || found
			}
		}
	}
	return found
}

// runBaselines performs the baseline runs with these numbers, x.Parallel at a time.
func (x *Explorer) runBaselines(ctx context.Context, from, to int) ([]*run, error) {
	var group errgroup.Group
	group.SetLimit(x.Parallel)
	all := make([]*run, 0, to-from)
	for i := from; i < to; i++ {
		r := x.newRun(ctx, &fault.Plan{
			Name: fmt.Sprintf("none/%d", i+1), Fault: "none", Summary: "nothing was done to the operator", GracefulStop: true,
			AlwaysApplies: true,
		}, nil)
		r.atEnd = r.restartWhenIdle
		all = append(all, r)
		group.Go(func() error {
			r.execute()
			return r.infraError()
		})
	}
	return all, group.Wait()
}

// failed reports whether a run has a violation that makes its states unfit for a baseline. Writes outside of the namespace
// do not concern its states.
func failed(runs []*run) bool {
	return slices.ContainsFunc(runs, func(r *run) bool {
		return slices.ContainsFunc(r.violations, func(v report.Violation) bool { return v.Oracle != oracleOutside })
	})
}

// countsAgree reports whether the runs agree on all creations and deletions.
func countsAgree(runs []*run) bool {
	return !slices.ContainsFunc(runs, func(r *run) bool { return !maps.Equal(r.counts(), runs[0].counts()) })
}

// newBaseline derives the baseline from the runs. All states are compared with those of the first run.
func newBaseline(runs []*run) *baseline.Baseline {
	a := runs[0]
	base := &baseline.Baseline{
		Checkpoints: a.checkpoints, Mask: state.Mask{}, Counts: state.Counts{}, UnstableCounts: map[string]bool{},
		Status: map[intercept.GroupResource]bool{}, Opened: a.operator.Opened(1), Children: a.children,
		WatchEvents: map[intercept.GroupResource]int{},
	}
	base.Calls = a.targets()
	base.UserObjects = a.userObjects()
	base.Restored = a.restored(a.checkpoints[len(a.checkpoints)-1])
	for _, b := range runs[1:] {
		for i := range a.checkpoints {
			for _, key := range base.Mask.AddDifferences(a.checkpoints[i], b.checkpoints[i]) {
				base.Mask[key] = true
			}
		}
		common := map[string]bool{}
		for _, t := range b.targets() {
			common[t.ID()] = true
		}
		base.Calls = slices.DeleteFunc(base.Calls, func(t baseline.Target) bool { return !common[t.ID()] })
	}
	var counts []state.Counts
	for _, r := range runs {
		counts = append(counts, r.counts())
	}
	base.MergeCounts(counts)
	base.SecretChanges = map[string]int{}
	for _, r := range runs {
		for place, n := range r.secretChanges() {
			base.SecretChanges[place] = max(base.SecretChanges[place], n)
		}
	}
	for _, c := range a.operator.Calls() {
		if c.Subresource == "status" && c.IsWrite() {
			base.Status[intercept.GroupResourceOf(c.Request)] = true
		}
	}
	for _, f := range a.operator.Frames() {
		base.WatchEvents[f.Kind]++
	}
	return base
}

// Notes lists everything that no run is compared by, because the baseline runs disagree about it. It is empty before
// RunBaseline.
func (x *Explorer) Notes() []string { return x.baseline.Notes() }

// Effects returns the number of the operator's requests that had an effect in every baseline run. It is 0 before
// RunBaseline.
func (x *Explorer) Effects() int { return x.baseline.Effects() }

// restartWhenIdle restarts the operator in the converged state. The new process must not write anything.
func (r *run) restartWhenIdle() {
	before := r.procs.count()
	if !r.procs.restart() {
		return
	}
	r.awaitWatches(before + 1)
	ctx, cancel := r.idle.WithTimeout()
	defer cancel()
	deadline := r.idle.WaitOperatorIdle(ctx, r.x.QuietPeriod)
	var wrote []string
	effective := r.effective()
	for i, c := range r.operator.Calls() {
		if c.Process > before && effective[i] && c.Resource != "events" && !intercept.IsLease(c.Request) &&
			!r.idle.IsTimestampUpdate(c.Version) {
			wrote = append(wrote, c.String()+r.writeEffect(c, r.began))
		}
	}
	switch {
	case deadline != nil && r.space.Context().Err() == nil:
		r.addViolation(oracleAtRest, "after a restart the operator does not come to rest", r.lastWrites(8, r.began))
	case len(wrote) > 0:
		r.addViolation(oracleRestart, "after a restart the operator changed something although nothing was to be done",
			strings.Join(wrote, "\n"))
	}
}

// awaitWatches waits until a process watches every kind that the first process watched. Kinds that the first process only
// listed are not required: it may have needed them once.
func (r *run) awaitWatches(number int) {
	ctx, cancel := r.idle.WithTimeout()
	defer cancel()
	watched := r.operator.Watched(1)
	for ctx.Err() == nil {
		opened := r.operator.Opened(number)
		if containsAll(r.operator.Watched(number), watched) && (len(opened) > 0 || len(r.operator.Opened(1)) == 0) {
			return
		}
		r.operator.ResetIdleTime()
		_ = r.operator.Idle(ctx, quiescence.StepQuietPeriod) // the error is that of ctx
	}
}
