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

// baseline is what the fault-free runs taught.
type baseline struct {
	checkpoints    []state.State // after each step, and after the custom resources were deleted
	mask           state.Mask    // where two fault-free runs differ
	counts         state.Counts
	unstableCounts map[string]bool  // groups of which two fault-free runs made different numbers
	opened         []intercept.Kind // what the operator lists or watches
	status         map[intercept.Kind]bool
	calls          []target // every request of the operator but watches and leader election, in order
	children       [][]child
	userObjects    map[string]bool        // canonical names of what the scenario made or changed
	restored       map[string]bool        // of these, see [run.restored]
	watchEvents    map[intercept.Kind]int // how many events of each kind the operator was told
	secretChanges  map[string]int         // how often a value of a Secret changed at most, by its place in a state
}

// child is an object that the operator made, as it is known in every run.
type child struct {
	name  string // canonical
	kind  intercept.Kind
	parts []string // of its fields that the operator set, see parts
}

// How many fault-free runs are made, and how many if these do not agree on what is created and deleted.
const baselineRuns, maxBaselineRuns = 3, 5

// Learn makes the fault-free runs. If what they show is wrong already, there is nothing to compare with, and nothing can be
// tried: one of the runs has failed then.
func (x *Explorer) Learn(ctx context.Context) ([]report.Run, error) {
	learned, err := x.runBaselines(ctx, 0, baselineRuns)
	if err == nil && !failed(learned) && x.findGeneratedNames(learned) { // which has to be known from the beginning
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

// findGeneratedNames reports whether the runs show that the operator makes up names, and remembers which.
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

// runBaselines makes the fault-free runs of these numbers, as many at a time as it may.
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
	return all, group.Wait() //nolint:wrapcheck // it says what is broken
}

func failed(runs []*run) bool {
	return slices.ContainsFunc(runs, func(r *run) bool { return len(r.violations) > 0 })
}

// countsAgree reports whether the runs agree on what is created and deleted.
func countsAgree(runs []*run) bool {
	return !slices.ContainsFunc(runs, func(r *run) bool { return !maps.Equal(r.counts(), runs[0].counts()) })
}

// newBaseline draws the conclusions from fault-free runs. The first of them is what the others are compared with.
func newBaseline(runs []*run) *baseline {
	a := runs[0]
	base := &baseline{
		checkpoints: a.checkpoints, mask: state.Mask{}, counts: state.Counts{}, unstableCounts: map[string]bool{},
		status: map[intercept.Kind]bool{}, opened: a.operator.Opened(1), children: a.children, watchEvents: map[intercept.Kind]int{},
	}
	base.calls, base.userObjects, base.restored = a.targets(), a.userObjects(), a.restored()
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

// restored are the canonical names of what was there before the operator started, what the scenario never changed, and
// what is in the end as it was: the operator leaves no trace in it. Custom resources are none of them.
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

// Notes say what no run is judged by, because the runs without a fault do not agree about it. There are none before Learn.
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

// mergeCounts takes what all runs agree on, or all but one of at least five: an operator that is wrong now and then is
// wrong in a fault-free run now and then, too.
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

// restartWhenIdle restarts the operator when everything is as it should be: it must find nothing to do.
func restartWhenIdle(r *run, _ int) {
	before := r.started
	if !r.restart() {
		return
	}
	r.awaitWatches(before + 1)
	ctx, cancel := r.withTimeout()
	defer cancel()
	deadline := r.waitOperatorIdle(ctx, r.x.Rest)
	r.sinceLastChange() // so that the ticks are known
	var wrote []string
	effective := r.effective()
	for i, c := range r.operator.Calls() {
		if c.Process > before && effective[i] && c.Resource != "events" && !intercept.IsLease(c.Request) && !r.tracker.ticks[c.Version] {
			wrote = append(wrote, c.String()+r.writeEffect(c))
		}
	}
	switch {
	case deadline != nil && r.k.Context().Err() == nil:
		r.addViolation(oracleAtRest, "after a restart the operator does not come to rest", r.lastWrites(8))
	case len(wrote) > 0:
		r.addViolation(oracleRestart, "after a restart the operator changed something although nothing was to be done",
			strings.Join(wrote, "\n"))
	}
}

// writeEffect is what a write made of its object, in a line of its own, or "" if nothing shows it.
func (r *run) writeEffect(c intercept.Call) string {
	changes := r.log.Changes()
	for i, change := range timeline.Changes(changes, r.began) {
		if u := changes[i].Object; string(u.GetUID()) == c.UID && u.GetResourceVersion() == c.Version {
			return "\n    " + change.Text
		}
	}
	return ""
}

// awaitWatches waits until an incarnation watches what the first one watched. What that only listed it may have needed for
// something that does not happen again.
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
		_ = r.operator.Idle(ctx, stepQuietPeriod) // its error is that of ctx
	}
}

// effective tells which of the calls changed something: an object has a version that it did not have before.
func (r *run) effective() map[int]bool {
	known := map[types.UID]map[string]bool{}
	all := map[int]bool{}
	// The versions that others made, and those from before.
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

// secretChanges counts how often the values of Secrets changed, of each Secret as long as it existed.
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

// counts are how often the objects that the operator made were created and deleted.
func (r *run) counts() state.Counts {
	made := created(r.operator.Calls())
	return state.CountOf(r.names(r.changesBeforeTeardown), r.changesBeforeTeardown, func(c history.Change) bool {
		return made[c.Object.GetUID()] && c.Resource.Resource != "events" && c.Type != watch.Modified
	})
}
