package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/quiescence"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// baselineRuns is the number of baseline runs. maxBaselineRuns is the number if these disagree on creations and
// deletions.
const baselineRuns, maxBaselineRuns = 3, baseline.ManyRuns

// RunBaseline performs the baseline runs, learns the timeout if none was set, and compares the states with those of fresh
// operators. If a baseline run does not reach the end of the scenario, there is nothing to compare faults with, and no plan
// can be tried. Other violations are not held against the faults. A state that differs from that of a fresh operator is a
// failed run of its own.
func (x *Explorer) RunBaseline(ctx context.Context) ([]report.Run, error) {
	runs, err := x.runBaselines(ctx, 0, baselineRuns)
	if err == nil && x.areFit(runs) && x.findGeneratedNames(runs) { // needed from the first state on
		runs, err = x.runBaselines(ctx, 0, baselineRuns)
	}
	if err == nil && x.areFit(runs) && !countsAgree(runs) {
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
	case err != nil:
	case slices.ContainsFunc(runs, func(r *run) bool { return !r.isTornDown() && len(r.violations) == 0 }):
		err = errors.New("learning what happens without a fault: what ended a run early is not held against the operator, " +
			"so that there is nothing to compare with: switch fewer oracles off")
	case x.areFit(runs):
		var fresh []report.Run
		fresh, err = x.learn(ctx, runs, reports)
		reports = append(reports, fresh...)
	}
	if err == nil {
		x.noBaseline = x.obstacle(reports)
	}
	return reports, err
}

// learn derives the baseline from the runs, and what else the runs with a fault depend on. It returns the failed comparisons
// with fresh operators, and replaces a report to which it adds a violation.
func (x *Explorer) learn(ctx context.Context, runs []*run, reports []report.Run) ([]report.Run, error) {
	x.baseline = newBaseline(runs)
	if r := reportIdleUpdates(runs); r != nil {
		reports[0] = r.report()
	}
	x.setFaultless(reports)
	for _, r := range runs {
		x.longestStep = max(x.longestStep, r.longestStep)
	}
	if err := x.measureRetry(ctx); err != nil {
		return nil, err
	}
	return x.runFresh(ctx, runs[0])
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
	var mu sync.Mutex
	group.SetLimit(x.Parallel)
	all, began := make([]*run, 0, to-from), time.Now()
	for i := from; i < to; i++ {
		r := x.newRun(ctx, &fault.Plan{
			Name: fmt.Sprintf("none/%d", i+1), Fault: "none", Summary: "nothing was done to the operator", GracefulStop: true,
			AlwaysApplies: true,
		}, nil)
		r.atEnd = r.restartWhenIdle
		switch i {
		case 1:
			r.beginsAt = began.Add(apart)
		case 2:
			r.pauseAfterFirst = apart
		}
		all = append(all, r)
		group.Go(func() error {
			r.waitToBegin()
			r.execute()
			if x.Learning != nil && r.infraError() == nil {
				mu.Lock()
				defer mu.Unlock()
				x.Learning(r.report())
			}
			return r.infraError()
		})
	}
	return all, group.Wait()
}

// apart is the time by which baseline runs are shifted, so that values in seconds differ. Of three concurrent runs, the
// second begins later, so that what depends on the time of day differs, and the third pauses after its first step, so that
// what depends on the time since then differs.
const apart = 1100 * time.Millisecond

// waitToBegin waits until the run may begin.
func (r *run) waitToBegin() {
	r.pause(time.Until(r.beginsAt))
	r.began = time.Now()
}

// pause waits, or returns when the run is interrupted.
func (r *run) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-r.space.Context().Done():
	}
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
		StepFields: a.stepFieldsAt, AddedFields: a.addedFieldsAt, MetadataFields: a.metadataFieldsAt, Pods: a.podsAt,
		WatchEvents: map[intercept.GroupResource]int{},
	}
	base.Calls = a.targets()
	addExchanges(base, runs)
	if webhooks := a.space.Webhooks(); webhooks != nil {
		base.Admitted = webhooks.Seen()
	}
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
	base.Replacements = map[string]int{}
	for _, r := range runs {
		for place, n := range r.replacements() {
			base.Replacements[place] = max(base.Replacements[place], n)
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
	base.LaterEvents = laterEvents(runs)
	return base
}

// laterEvents counts the watch events that the user did not cause, at most, by kind and step.
func laterEvents(runs []*run) map[intercept.GroupResource]map[int]int {
	most := map[intercept.GroupResource]map[int]int{}
	for _, r := range runs {
		counts := map[intercept.GroupResource]map[int]int{}
		for _, f := range r.operator.Frames() {
			if f.Initial || r.isUserEvent(f) {
				continue
			}
			if counts[f.Kind] == nil {
				counts[f.Kind] = map[int]int{}
			}
			counts[f.Kind][f.Step]++
		}
		for kind, steps := range counts {
			if most[kind] == nil {
				most[kind] = map[int]int{}
			}
			for step, n := range steps {
				most[kind][step] = max(most[kind][step], n)
			}
		}
	}
	return most
}

// Notes lists everything that no run is compared by, because the baseline runs disagree about it, whether they have
// violations, a timeout that was learned, and the states that were not compared with those of a fresh operator. Without a
// baseline, it says why. It is empty before RunBaseline.
func (x *Explorer) Notes() []string {
	if x.noBaseline != "" {
		return []string{x.noBaseline}
	}
	notes := x.baseline.Notes()
	if n := len(x.faultless); n > 0 {
		notes = append(notes, fmt.Sprintf("rules that the operator violates without a fault (%d) are not held against it again "+
			"in the runs with one", n))
	}
	return slices.Concat(notes, x.retryNotes(), x.freshNotes)
}

// HasBaseline reports whether the baseline runs reached the end of the scenario, so that plans can be tried.
func (x *Explorer) HasBaseline() bool { return x.baseline != nil }

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
			!r.idle.IsTimestampUpdate(c.Version) && !r.countsStart(c) {
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
	r.idleUpdates = r.updatesWithoutEffect(before)
}

// updatesWithoutEffect returns the updates by processes after the given one that changed nothing. An apply without an effect
// is an idiom, and a patch has no object to compare with.
func (r *run) updatesWithoutEffect(process int) map[string]string {
	all := map[string]string{}
	effective := r.effective()
	for i, c := range r.operator.Calls() {
		if c.Process > process && c.Verb == "update" && hasWritten(c) && !effective[i] && c.Resource != "events" &&
			!intercept.IsLease(c.Request) {
			all[r.targetOf(&c).Group()] = c.String()
		}
	}
	return all
}

// reportIdleUpdates reports updates that changed nothing after the restart of each run: the operator sends them in every
// reconcile. No event follows, so that there is no loop. It returns the run with the violation, or nil.
func reportIdleUpdates(runs []*run) *run {
	first := runs[0]
	common := maps.Clone(first.idleUpdates)
	for _, r := range runs[1:] {
		maps.DeleteFunc(common, func(target, _ string) bool { return r.idleUpdates[target] == "" })
	}
	if len(common) == 0 || !first.x.oracleEnabled(oracleRestart) {
		return nil
	}
	first.addViolation(oracleRestart, "after a restart the operator sends an update that changes nothing, in each run",
		strings.Join(slices.Sorted(maps.Values(common)), "\n"))
	return first
}

// countsStart reports whether a write changed nothing but a counter of starts, and times.
func (r *run) countsStart(c intercept.Call) bool {
	changes := r.log.Changes()
	names := r.names(changes)
	one := func(c history.Change) state.State {
		return state.Snapshot(names, []history.Change{c}, func(history.Change) state.Detail { return state.FullStatus })
	}
	var before *history.Change
	for i, change := range changes {
		switch {
		case string(change.Object.GetUID()) != c.UID:
		case change.Object.GetResourceVersion() != c.Version:
			before = &changes[i]
		case before != nil:
			want, paths := state.AllowCounters([]state.State{one(*before)}, one(change), 1, state.CountsStarts)
			isCount := len(paths) > 0 && state.Difference(want, one(change)) == ""
			if isCount {
				r.x.counters.add(paths)
			}
			return isCount
		}
	}
	return false
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
