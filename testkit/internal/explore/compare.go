package explore

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// This file compares states with those of the baseline.

// matchesBaseline reports whether the state after a step equals the baseline's, even if oracle end-state is off. If it
// does not, only a longer quiet period shows that the operator is done.
func (r *run) matchesBaseline(step int) bool {
	return r.x.oracleEnabled(oracleEndState) || r.foreign.any() || r.compare(step) == ""
}

// diff compares the state after a step with the baseline's. It returns "" if oracle end-state is off, or if an object of
// another owner has the name of a child: the child cannot exist.
func (r *run) diff(step int) string {
	if !r.x.oracleEnabled(oracleEndState) || r.foreign.any() {
		return ""
	}
	return r.compare(step)
}

// compare returns the difference between the state after a step and the baseline's, or "". After faults that change the
// cluster themselves, only the conditions of a status are compared: other fields may record history.
func (r *run) compare(step int) string {
	want, got := r.withoutStepFields(step, r.baseline.Checkpoints[step], r.state())
	if r.skipsStatus() {
		want = want.WithConditionsOnly()
		want, got = state.WithoutRecords(want, got)
		maps.DeleteFunc(want, func(name string, _ any) bool {
			_, is := got[name]
			return !is && r.x.isOldRevision(step, name)
		})
	}
	if r.noWaitAfter > 0 { // a Job for the skipped state does not exist
		isJob := func(name string, _ any) bool { return strings.HasPrefix(name, "jobs.batch/") }
		want, got = maps.Clone(want), maps.Clone(got)
		maps.DeleteFunc(want, isJob)
		maps.DeleteFunc(got, isJob)
	}
	if r.plan.DeletesEarly && (r.isInjected(r.plan) || r.isTornDown()) { // the scenario created less, and undid less
		users := r.userObjects()
		maps.Copy(users, r.baseline.UserObjects)
		if !r.terminating.Load() {
			maps.DeleteFunc(users, func(name string, _ bool) bool { return r.baseline.Restored[name] })
		}
		want, got = without(want, users), without(got, users)
		want, got = r.adjustSurvivors(want, got)
	}
	return r.differences(step, want, got)
}

// differences compares two states apart from what differs between baseline runs, and from counters of attempts that are
// greater by what the faults may have caused.
func (r *run) differences(step int, want, got state.State) string {
	mask := r.x.endStateMask(want, got)
	want, got = mask.Apply(want), mask.Apply(got)
	diff := state.Difference(want, got)
	if diff == "" {
		return ""
	}
	wanted := append(slices.Clone(r.baseline.Checkpoints[:step]), want)
	want, paths := state.AllowCounters(wanted, got, r.maxAttempts(), state.CountsAttempts)
	if len(paths) > 0 {
		if diff = state.Difference(want, got); diff == "" {
			r.x.counters.add(paths)
		}
	}
	return diff
}

// endStateMask returns what is not compared after a fault: what differs between baseline runs, and the fields that the
// operator leaves to other managers. Of an object that it leaves to them, only the existence is compared.
func (x *Explorer) endStateMask(states ...state.State) state.Mask {
	if len(x.ExternallyManaged) == 0 {
		return x.baseline.Mask
	}
	mask := maps.Clone(x.baseline.Mask)
	for _, place := range x.ExternallyManaged {
		isObject := slices.ContainsFunc(states, func(s state.State) bool { _, ok := s[place]; return ok })
		mask[place] = !isObject || mask[place]
	}
	return mask
}

// maxAttempts returns how many more starts and attempts the faults of the run may have caused.
func (r *run) maxAttempts() int64 {
	n := len(r.plan.Parts()) + r.procs.count() - max(1, r.plan.Replicas)
	for _, c := range r.operator.Calls() {
		if c.Lost != "" || c.Code >= http.StatusBadRequest && c.IsWrite() {
			n++
		}
	}
	return int64(n)
}

// counters collects the fields that were greater after a fault because they count attempts. It is safe for concurrent use.
type counters struct {
	mu    sync.Mutex
	paths map[string]bool
}

func (c *counters) add(paths []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paths == nil {
		c.paths = map[string]bool{}
	}
	for _, path := range paths {
		c.paths[path] = true
	}
}

// FaultNotes lists the fields that are not compared strictly because they count starts, attempts or failures: after a
// fault they may be greater. It also lists the changes that are not made after a watch has ended, because the operator does
// not react to them. It is complete when all plans have been tried.
func (x *Explorer) FaultNotes() []string {
	x.counters.mu.Lock()
	defer x.counters.mu.Unlock()
	notes := x.triggerNotes()
	if len(x.counters.paths) == 0 {
		return notes
	}
	return append(notes, "this counts starts, attempts or failures, and may be greater after a fault: "+
		strings.Join(slices.Sorted(maps.Keys(x.counters.paths)), ", "))
}

// adjustSurvivors restricts the comparison of objects that may outlive the custom resources, after an early deletion.
// Objects that existed at the deletion and stay in the baseline must still exist. Their content depends on the progress
// of the run, so it is not compared. Objects that did not exist at the deletion are not required, and allowed: the operator
// may have been about to create them. A deleted namespace leaves none. The same applies to what is left in the baseline
// although it may not: that is a finding without a fault.
func (r *run) adjustSurvivors(want, got state.State) (state.State, state.State) {
	if !r.isTornDown() {
		return want, got
	}
	want, got = maps.Clone(want), maps.Clone(got)
	for name := range want {
		if r.baseline.Restored[name] && !r.x.mayRemain(name) || isExternal(name) {
			continue
		}
		now, is := got[name]
		switch _, was := r.survivors[name]; {
		case r.terminating.Load(), !was && !is:
			delete(want, name)
		case is:
			want[name] = now
		}
	}
	maps.DeleteFunc(got, func(name string, _ any) bool {
		_, wanted := want[name]
		return !wanted && r.x.mayRemain(name)
	})
	return want, got
}

// mayRemain reports whether an object with this canonical name may outlive the custom resources.
func (x *Explorer) mayRemain(name string) bool {
	resource, _, _ := strings.Cut(name, "/")
	resource, _, _ = strings.Cut(resource, ".")
	return slices.Contains(x.AllowResidue, resource)
}

func without(s state.State, names map[string]bool) state.State {
	s = maps.Clone(s)
	maps.DeleteFunc(s, func(name string, _ any) bool { return names[name] })
	return s
}
