package explore

import (
	"maps"
	"slices"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// This file compares states with those of the baseline.

// matchesBaseline reports whether the state after a step equals the baseline's, even if oracle end-state is off. If it
// does not, only a longer quiet period shows that the operator is done.
func (r *run) matchesBaseline(step int) bool {
	return r.x.oracleEnabled(oracleEndState) || r.compare(r.baseline.Checkpoints[step], r.state()) == ""
}

// diff compares a state with the baseline's. It returns "" if oracle end-state is off.
func (r *run) diff(want, got state.State) string {
	if !r.x.oracleEnabled(oracleEndState) {
		return ""
	}
	return r.compare(want, got)
}

// compare returns the difference between a state and the baseline's, or "". After faults that change the cluster
// themselves, only the conditions of a status are compared: other fields may record history.
func (r *run) compare(want, got state.State) string {
	if r.plan.SkipCounts {
		want = want.WithConditionsOnly()
	}
	if r.noWaitAfter > 0 { // a Job for the skipped state does not exist
		isJob := func(name string, _ any) bool { return strings.HasPrefix(name, "jobs.batch/") }
		want, got = maps.Clone(want), maps.Clone(got)
		maps.DeleteFunc(want, isJob)
		maps.DeleteFunc(got, isJob)
	}
	if r.plan.DeletesEarly { // the scenario created less, and undid less
		users := r.userObjects()
		maps.Copy(users, r.baseline.UserObjects)
		if !r.terminating.Load() {
			maps.DeleteFunc(users, func(name string, _ bool) bool { return r.baseline.Restored[name] })
		}
		want, got = without(want, users), without(got, users)
		want, got = r.adjustSurvivors(want, got)
	}
	return r.baseline.Mask.Diff(want, got)
}

// adjustSurvivors restricts the comparison of objects that may outlive the custom resources, after an early deletion.
// Objects that existed at the deletion and stay in the baseline must still exist. Their content depends on the progress
// of the run, so it is not compared. Objects that this run never created are not required. A deleted namespace leaves
// none.
func (r *run) adjustSurvivors(want, got state.State) (state.State, state.State) {
	if !r.isTornDown() || len(r.x.AllowResidue) == 0 {
		return want, got
	}
	want, got = maps.Clone(want), maps.Clone(got)
	for name := range want {
		if !r.mayRemain(name) {
			continue
		}
		now, is := got[name]
		switch _, was := r.survivors[name]; {
		case !was || r.terminating.Load():
			delete(want, name)
		case is:
			want[name] = now
		}
	}
	maps.DeleteFunc(got, func(name string, _ any) bool {
		_, wanted := want[name]
		return !wanted && r.mayRemain(name)
	})
	return want, got
}

// mayRemain reports whether an object with this canonical name may outlive the custom resources.
func (r *run) mayRemain(name string) bool {
	resource, _, _ := strings.Cut(name, "/")
	resource, _, _ = strings.Cut(resource, ".")
	return slices.Contains(r.x.AllowResidue, resource)
}

func without(s state.State, names map[string]bool) state.State {
	s = maps.Clone(s)
	maps.DeleteFunc(s, func(name string, _ any) bool { return names[name] })
	return s
}
