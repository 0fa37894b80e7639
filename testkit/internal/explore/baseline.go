package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
	"github.com/homeostat-dev/homeostat/testkit/internal/timeline"
)

// baselineRuns is the number of baseline runs. maxBaselineRuns is the number if these disagree on creations and
// deletions.
const baselineRuns, maxBaselineRuns = 3, baseline.ManyRuns

// Learn performs the baseline runs. If one of them fails, there is nothing to compare faults with, and no plan can be
// tried.
func (x *Explorer) Learn(ctx context.Context) ([]report.Run, error) {
	learned, err := x.runBaselines(ctx, 0, baselineRuns)
	if err == nil && !failed(learned) && x.findGeneratedNames(learned) { // needed from the first state on
		learned, err = x.runBaselines(ctx, 0, baselineRuns)
	}
	if err == nil && !failed(learned) && !countsAgree(learned) {
		var more []*run
		more, err = x.runBaselines(ctx, baselineRuns, maxBaselineRuns)
		learned = append(learned, more...)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("learning what happens without a fault: %w", ctx.Err())
	}
	reports := make([]report.Run, 0, len(learned))
	for _, r := range learned {
		reports = append(reports, r.report())
	}
	switch {
	case err != nil || failed(learned):
	case slices.ContainsFunc(learned, func(r *run) bool { return !r.isTornDown() }):
		err = errors.New("learning what happens without a fault: what ended a run early is not held against the operator, " +
			"so that there is nothing to compare with: switch fewer oracles off")
	default:
		x.baseline = newBaseline(learned)
	}
	return reports, err
}

// findGeneratedNames reports whether the operator generates names, and stores their prefixes.
func (x *Explorer) findGeneratedNames(runs []*run) (found bool) {
	x.generated = state.GeneratedNames{}
	for _, b := range runs[1:] {
		for i, a := range runs[0].checkpoints {
			if i < len(b.checkpoints) {
				found = x.generated.Learn(a, b.checkpoints[i]) || found
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
			return r.infraErr
		})
	}
	return all, group.Wait()
}

func failed(runs []*run) bool {
	return slices.ContainsFunc(runs, func(r *run) bool { return len(r.violations) > 0 })
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
		Status: map[intercept.Kind]bool{}, Opened: a.operator.Opened(1), Children: a.children,
		WatchEvents: map[intercept.Kind]int{},
	}
	base.Calls = a.targets()
	base.UserObjects = a.userObjects()
	base.Restored = a.restored()
	for _, b := range runs[1:] {
		for i := range a.checkpoints {
			for _, key := range base.Mask.Learn(a.checkpoints[i], b.checkpoints[i]) {
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
		if c.Subresource == "status" && c.Writes() {
			base.Status[intercept.KindOf(c.Request)] = true
		}
	}
	for _, f := range a.operator.Frames() {
		base.WatchEvents[f.Kind]++
	}
	return base
}

// Restored returns the canonical names of objects that existed before the operator started, that the scenario never
// changed, and that have their initial content at the end. The operator leaves no trace in them. Custom resources are
// excluded.
func (r *run) restored() map[string]bool {
	all, end := map[string]bool{}, r.checkpoints[len(r.checkpoints)-1]
	names := r.names(r.log.Changes())
	last := map[types.UID]history.Change{}
	for _, c := range r.initial {
		last[c.Object.GetUID()] = c
	}
	begin := state.Renumber(state.Snapshot(names, slices.Collect(maps.Values(last)), r.detail()))
	for uid, c := range last {
		name := names.Of(uid)
		all[name] = !readiness.IsCustom(c.Object) && begin[name] != nil && reflect.DeepEqual(begin[name], end[name])
	}
	for uid := range written(r.user.Calls()[r.setupCalls:]) {
		delete(all, names.Of(uid))
	}
	return all
}

// Notes lists everything that no run is compared by, because the baseline runs disagree about it. It is empty before Learn.
func (x *Explorer) Notes() []string { return x.baseline.Notes() }

// Effects returns the number of the operator's requests that had an effect in every baseline run. It is 0 before Learn.
func (x *Explorer) Effects() int { return x.baseline.Effects() }

// restartWhenIdle restarts the operator in the converged state. The new process must not write anything.
func (r *run) restartWhenIdle() {
	before := r.started
	if !r.restart() {
		return
	}
	r.awaitWatches(before + 1)
	ctx, cancel := r.withTimeout()
	defer cancel()
	deadline := r.waitOperatorIdle(ctx, r.x.Rest)
	r.sinceLastChange() // update r.tracker.ticks
	var wrote []string
	effective := r.effective()
	for i, c := range r.operator.Calls() {
		if c.Process > before && effective[i] && c.Resource != "events" && !intercept.IsLease(c.Request) &&
			!r.tracker.ticks[c.Version] {
			wrote = append(wrote, c.String()+r.writeEffect(c))
		}
	}
	switch {
	case deadline != nil && r.space.Context().Err() == nil:
		r.addViolation(oracleAtRest, "after a restart the operator does not come to rest", r.lastWrites(8))
	case len(wrote) > 0:
		r.addViolation(oracleRestart, "after a restart the operator changed something although nothing was to be done",
			strings.Join(wrote, "\n"))
	}
}

// writeEffect returns the change that a write made to its object, in a line of its own, or "" if the history does not
// show it.
func (r *run) writeEffect(c intercept.Call) string {
	changes := r.log.Changes()
	for i, change := range timeline.Changes(changes, r.began) {
		if u := changes[i].Object; string(u.GetUID()) == c.UID && u.GetResourceVersion() == c.Version {
			return "\n    " + change.Text
		}
	}
	return ""
}

// awaitWatches waits until a process watches every kind that the first process watched. Kinds that the first process only
// listed are not required: it may have needed them once.
func (r *run) awaitWatches(number int) {
	ctx, cancel := r.withTimeout()
	defer cancel()
	watched := r.operator.Watched(1)
	for ctx.Err() == nil {
		opened := r.operator.Opened(number)
		if containsAll(r.operator.Watched(number), watched) && (len(opened) > 0 || len(r.operator.Opened(1)) == 0) {
			return
		}
		r.operator.Touch()
		_ = r.operator.Idle(ctx, stepQuietPeriod) // the error is that of ctx
	}
}

// Effective returns the indices of the calls that changed something: the object has a version that it did not have
// before.
func (r *run) effective() map[int]bool {
	known := map[types.UID]map[string]bool{}
	all := map[int]bool{}
	// versions written by others, and earlier ones
	calls := r.operator.Calls()
	order := make([]int, 0, len(calls))
	for i := range calls {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(calls[a].Ended - calls[b].Ended) })
	ours := map[string]bool{}
	for _, c := range calls {
		ours[c.UID+"@"+c.Version] = true
	}
	for _, c := range r.log.Changes() {
		uid, version := c.Object.GetUID(), c.Object.GetResourceVersion()
		if !ours[string(uid)+"@"+version] {
			if known[uid] == nil {
				known[uid] = map[string]bool{}
			}
			known[uid][version] = true
		}
	}
	for _, i := range order {
		c := calls[i]
		if !c.Writes() || !c.Reached || c.Code >= http.StatusMultipleChoices {
			continue
		}
		if c.Verb == "delete" || c.Verb == "deletecollection" {
			all[i] = true
			continue
		}
		uid := types.UID(c.UID)
		if c.UID == "" || !known[uid][c.Version] {
			all[i] = true
		}
		if known[uid] == nil {
			known[uid] = map[string]bool{}
		}
		known[uid][c.Version] = true
	}
	return all
}

// SecretChanges counts the changes of values in Secrets. The count of a Secret ends with its deletion.
func (r *run) secretChanges() map[string]int {
	names, times, last := r.names(r.changes), map[string]int{}, map[types.UID]map[string]any{}
	for _, c := range r.changes {
		if kindOf(c).String() != "secrets" {
			continue
		}
		data, _, _ := unstructured.NestedMap(c.Object.Object, "data")
		uid := c.Object.GetUID()
		for key, v := range data {
			if before, ok := last[uid][key]; ok && before != v {
				times[names.Of(uid)+".data."+key]++
			}
		}
		last[uid] = data
	}
	return times
}

// Counts returns the creations and deletions of objects that the operator created.
func (r *run) counts() state.Counts {
	made := created(r.operator.Calls())
	return state.CountOf(r.names(r.changesBeforeTeardown), r.changesBeforeTeardown, func(c history.Change) bool {
		return made[c.Object.GetUID()] && c.Resource.Resource != "events" && c.Type != watch.Modified
	})
}
