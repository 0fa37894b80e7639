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

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
	"github.com/homeostat-dev/homeostat/testkit/internal/timeline"
)

// baseline holds what the runs without a fault establish.
type baseline struct {
	checkpoints    []state.State // after each step, and after the deletion of the custom resources
	mask           state.Mask    // where two baseline runs differ
	counts         state.Counts
	unstableCounts map[string]bool  // groups with different counts in two baseline runs
	opened         []intercept.Kind // kinds that the operator lists or watches
	status         map[intercept.Kind]bool
	calls          []target // every request of the operator except watches and leader election, in order
	children       [][]child
	userObjects    map[string]bool        // canonical names of objects that the scenario created or changed
	restored       map[string]bool        // see [run.restored]
	watchEvents    map[intercept.Kind]int // number of watch events that the operator received, by kind
	secretChanges  map[string]int         // how often a value of a Secret changed, at most, by its path in a state
}

// child is an object that the operator created, by a name that is the same in every run.
type child struct {
	name  string // canonical
	kind  intercept.Kind
	parts []string // parts with fields that the operator set, see parts
}

// baselineRuns is the number of baseline runs. maxBaselineRuns is the number if these disagree on creations and
// deletions.
const baselineRuns, maxBaselineRuns = 3, 5

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
		r := x.newRun(ctx, &plan{
			name: fmt.Sprintf("none/%d", i+1), fault: "none", summary: "nothing was done to the operator", gracefulStop: true,
			alwaysApplies: true, atEnd: restartWhenIdle,
		}, nil)
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
func newBaseline(runs []*run) *baseline {
	a := runs[0]
	base := &baseline{
		checkpoints: a.checkpoints, mask: state.Mask{}, counts: state.Counts{}, unstableCounts: map[string]bool{},
		status: map[intercept.Kind]bool{}, opened: a.operator.Opened(1), children: a.children,
		watchEvents: map[intercept.Kind]int{},
	}
	base.calls = a.targets()
	base.userObjects = a.userObjects()
	base.restored = a.restored()
	for _, b := range runs[1:] {
		for i := range a.checkpoints {
			for _, key := range base.mask.Learn(a.checkpoints[i], b.checkpoints[i]) {
				base.mask[key] = true
			}
		}
		common := map[string]bool{}
		for _, t := range b.targets() {
			common[t.id()] = true
		}
		base.calls = slices.DeleteFunc(base.calls, func(t target) bool { return !common[t.id()] })
	}
	base.mergeCounts(runs)
	base.secretChanges = map[string]int{}
	for _, r := range runs {
		for place, n := range r.secretChanges() {
			base.secretChanges[place] = max(base.secretChanges[place], n)
		}
	}
	for _, c := range a.operator.Calls() {
		if c.Subresource == "status" && c.Writes() {
			base.status[intercept.KindOf(c.Request)] = true
		}
	}
	for _, f := range a.operator.Frames() {
		base.watchEvents[f.Kind]++
	}
	return base
}

// restored returns the canonical names of objects that existed before the operator started, that the scenario never
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

// Notes lists everything that no run is compared by, because the baseline runs disagree about it. It is empty before
// Learn.
func (x *Explorer) Notes() []string {
	var notes []string
	tell := func(what string, all []string) {
		const most = 8
		if rest := len(all) - most; rest > 0 {
			all = append(all[:most], fmt.Sprintf("and %d more", rest))
		}
		if len(all) > 0 {
			notes = append(notes, fmt.Sprintf("%s differs between runs without a fault, and is not compared: %s",
				what, strings.Join(all, ", ")))
		}
	}
	if x.baseline != nil {
		tell("what is there", slices.Sorted(maps.Keys(x.baseline.mask)))
		tell("how often this is made and deleted", slices.Sorted(maps.Keys(x.baseline.unstableCounts)))
	}
	return notes
}

// mergeCounts takes the counts on which all runs agree. With at least five runs, one may deviate: an operator with a rare
// error has it in a baseline run, too.
func (b *baseline) mergeCounts(runs []*run) {
	tally := map[string]map[state.Count]int{}
	all := make([]state.Counts, 0, len(runs))
	for _, r := range runs {
		counts := r.counts()
		all = append(all, counts)
		for group := range counts {
			tally[group] = map[state.Count]int{}
		}
	}
	for group, votes := range tally {
		for _, counts := range all {
			votes[counts[group]]++
		}
		for count, n := range votes {
			if n == len(runs) || len(runs) >= maxBaselineRuns && n == len(runs)-1 {
				b.counts[group] = count
			}
		}
		if _, known := b.counts[group]; !known {
			b.unstableCounts[group] = true
		}
	}
}

// restartWhenIdle restarts the operator in the converged state. The new process must not write anything.
func restartWhenIdle(r *run, _ int) {
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

// effective returns the indices of the calls that changed something: the object has a version that it did not have
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

// secretChanges counts the changes of values in Secrets. The count of a Secret ends with its deletion.
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

// counts returns the creations and deletions of objects that the operator created.
func (r *run) counts() state.Counts {
	made := created(r.operator.Calls())
	return state.CountOf(r.names(r.changesBeforeTeardown), r.changesBeforeTeardown, func(c history.Change) bool {
		return made[c.Object.GetUID()] && c.Resource.Resource != "events" && c.Type != watch.Modified
	})
}
