package explore

import (
	"maps"
	"slices"
	"strings"

	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// This file is about whether what there is, is what it is without the fault.

// matchesBaseline reports whether a step that need not end as it does without the fault has done so. If it does not, only silence
// tells that the operator is done.
func (r *run) matchesBaseline(step int) bool {
	return r.x.oracleEnabled(oracleEndState) || r.compare(r.baseline.checkpoints[step], r.state()) == ""
}

// diff compares a state with what it is without the fault, if it has to be that.
func (r *run) diff(want, got state.State) string {
	if !r.x.oracleEnabled(oracleEndState) {
		return ""
	}
	return r.compare(want, got)
}

// compare says how a state differs from what it is without the fault. After a fault that is itself a change of the cluster
// only what conditions say is compared of a status: the rest may rightly tell of what happened.
func (r *run) compare(want, got state.State) string {
	if r.plan.skipCounts {
		want = want.WithConditionsOnly()
	}
	if r.plan.noWaitAfter > 0 { // what a Job does once for a state that was never seen is not done
		isJob := func(name string, _ any) bool { return strings.HasPrefix(name, "jobs.batch/") }
		want, got = maps.Clone(want), maps.Clone(got)
		maps.DeleteFunc(want, isJob)
		maps.DeleteFunc(got, isJob)
	}
	if r.plan.deletesEarly { // the scenario made less, and undid less
		users := r.userObjects()
		maps.Copy(users, r.baseline.userObjects)
		if !r.terminating.Load() {
			maps.DeleteFunc(users, func(name string, _ bool) bool { return r.baseline.restored[name] })
		}
		want, got = without(want, users), without(got, users)
		want, got = r.adjustSurvivors(want, got)
	}
	return r.baseline.mask.Diff(want, got)
}

// adjustSurvivors leaves of what may outlive the custom resources that what was there when they were deleted early, and stays
// without the fault, is there still. What this run never came to make need not be there, and what it is like depends on how
// far the run came. Who goes with the namespace leaves nothing.
func (r *run) adjustSurvivors(want, got state.State) (state.State, state.State) {
	if !r.isTornDown() || len(r.x.Keeps) == 0 {
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

// mayRemain reports whether an object of that canonical name may outlive the custom resources.
func (r *run) mayRemain(name string) bool {
	resource, _, _ := strings.Cut(name, "/")
	resource, _, _ = strings.Cut(resource, ".")
	return slices.Contains(r.x.Keeps, resource)
}

func without(s state.State, names map[string]bool) state.State {
	s = maps.Clone(s)
	maps.DeleteFunc(s, func(name string, _ any) bool { return names[name] })
	return s
}

// userObjects are the canonical names of what the scenario made or changed.
func (r *run) userObjects() map[string]bool {
	names, all := r.names(r.log.Changes()), map[string]bool{}
	calls := r.user.Calls()
	for uid := range written(calls) {
		all[names.Of(uid)] = true
	}
	return all
}
