package fault

import (
	"fmt"
	"slices"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

var lag = Fault{
	Name: "lag",
	Doc:  "The watch events of a kind are delayed during a step, with a reconcile meanwhile.",
	Plan: func(in *Input) []Plan {
		var plans []Plan
		for i, kind := range in.Opened {
			if in.WatchEvents[kind] == 0 {
				plans = append(plans, skipped("lag", kind.String(), "the operator is never told of an object of that kind", i))
				continue
			}
			ofKind, busiest := planLags(in, i, kind, planLag)
			if len(ofKind) > 0 {
				ofKind[busiest].Required = ofKind[busiest].Weight > 0
			}
			plans = append(plans, ofKind...)
		}
		return plans
	},
}

var lagLong = Fault{
	Name: "lag-long",
	Doc:  "The watch events of a kind are delayed during a step, with several reconciles meanwhile.",
	Plan: func(in *Input) []Plan { return atBusiestStep(in, planLagLong) },
}

var lagDeleted = Fault{
	Name: "lag-deleted",
	Doc:  "The watch events of a kind are delayed during a step, until the custom resources have been deleted.",
	Plan: func(in *Input) []Plan { return atBusiestStep(in, planLagDeleted) },
}

// A lagPlanner returns the plan for a kind and a step, which counts from 0.
type lagPlanner func(in *Input, place int, kind intercept.GroupResource, step int) Plan

// planLags returns the plans for each step, and the index of the step with most writes; of equal ones the last, which finds
// a filled cache.
func planLags(in *Input, place int, kind intercept.GroupResource, plan lagPlanner) (plans []Plan, busiest int) {
	plans = make([]Plan, len(in.Steps))
	for step := range in.Steps {
		plans[step] = plan(in, place, kind, step)
		if in.LaterEvents[kind][step+1] == 0 {
			plans[step].Skip = "no event of that kind comes during the step, except for those that the user causes"
			continue
		}
		plans[step].Weight = in.EffectiveWrites(kind, step+1)
		if plans[busiest].Skip != "" || plans[step].Weight >= plans[busiest].Weight {
			busiest = step
		}
	}
	return plans, busiest
}

// atBusiestStep returns one plan for each kind that the operator writes. A short exploration prefers the kinds of children:
// a delay of the custom resources also delays what triggers a reconcile.
func atBusiestStep(in *Input, plan lagPlanner) []Plan {
	var plans []Plan
	for i, kind := range in.Opened {
		if in.WatchEvents[kind] == 0 {
			continue // skipped by lag
		}
		all, busiest := planLags(in, i, kind, plan)
		if len(all) == 0 || all[busiest].Weight == 0 {
			continue
		}
		p := all[busiest]
		switch {
		case !hasChildOf(in, kind):
			p.Weight = 0
		case hasUncollected(in, kind, ""):
			p.Weight += uncollectedWeight
		}
		plans = append(plans, p)
	}
	return plans
}

// uncollectedWeight is more than the number of writes of any step.
const uncollectedWeight = 1000

// hasUncollected reports whether the operator creates objects of the kind, with this name unless it is empty, that the
// garbage collector does not delete: they have no owner, so that only the operator prevents residue.
func hasUncollected(in *Input, kind intercept.GroupResource, name string) bool {
	return slices.ContainsFunc(in.Children, func(children []baseline.Child) bool {
		return slices.ContainsFunc(children, func(c baseline.Child) bool {
			return c.Kind == kind && (name == "" || c.Name == kind.String()+"/"+name) && len(c.Content) > 0 && !c.HasOwner()
		})
	})
}

// hasChildOf reports whether the operator creates objects of the kind.
func hasChildOf(in *Input, kind intercept.GroupResource) bool {
	return slices.ContainsFunc(in.Children, func(children []baseline.Child) bool {
		return slices.ContainsFunc(children, func(c baseline.Child) bool { return c.Kind == kind })
	})
}

func planLag(in *Input, place int, kind intercept.GroupResource, step int) Plan {
	return planTriggered(in, "lag", place, kind, step, 1)
}

func planLagLong(in *Input, place int, kind intercept.GroupResource, step int) Plan {
	const reconciles = 3
	return planTriggered(in, "lag-long", place, kind, step, reconciles)
}

// planTriggered delays events until the operator has reconciled this many times more.
func planTriggered(in *Input, name string, place int, kind intercept.GroupResource, step, reconciles int) Plan {
	return Plan{
		Name: fmt.Sprintf("%s/%s@%s", name, kind, slug(in.Steps[step])), Fault: name, Step: step + 1, place: place,
		ExtraQuiet: true, MergesEvents: true,
		Summary: fmt.Sprintf("during step %q the operator learned of changes of %s late", in.Steps[step], kind),
		Before: func(r Run, at int) {
			if at == step {
				holdBack(r, kind, step)
			}
		},
		During: func(r Run, at int) {
			if at != step {
				return
			}
			r.WaitIdle()
			for range reconciles {
				triggerReconcile(r)
				r.WaitIdle()
			}
			deliver(r, kind)
		},
	}
}

func planLagDeleted(in *Input, place int, kind intercept.GroupResource, step int) Plan {
	return Plan{
		Name: fmt.Sprintf("lag-deleted/%s@%s", kind, slug(in.Steps[step])), Fault: "lag-deleted", place: place,
		ExtraQuiet: true, SkipCounts: true, DeletesEarly: true,
		Summary: fmt.Sprintf(
			"the custom resources were deleted right after step %q, and the operator learned of changes of %s late",
			in.Steps[step], kind),
		Before: func(r Run, at int) {
			if at == step {
				holdBack(r, kind, step)
			}
		},
		During: func(r Run, at int) {
			switch at {
			case step:
				r.WaitIdle()
				r.TearDown()
			case len(in.Steps):
				r.WaitIdle()
				deliver(r, kind)
			}
		},
	}
}

// holdBack delays the events of a step, except those that the user causes: without them, the operator does nothing.
func holdBack(r Run, kind intercept.GroupResource, step int) {
	if step == 0 {
		awaitWatch(r, kind)
	}
	r.Operator().Hold(kind, r.WroteEvent)
	r.LogFault("the watch events of " + kind.String() + " are delayed")
}

// watchTime is the time for the operator to open its first watches. It may open the watch of a kind later, on demand.
const watchTime = 500 * time.Millisecond

// awaitWatch waits until the operator watches the kind: what it lists is not delayed.
func awaitWatch(r Run, kind intercept.GroupResource) {
	for began := time.Now(); time.Since(began) < watchTime; {
		if slices.Contains(r.Operator().Watched(1), kind) {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-r.Space().Context().Done():
			return
		}
	}
}

// awaitWatches waits until the operator watches all of the kinds.
func awaitWatches(r Run, kinds []intercept.GroupResource) {
	for _, kind := range kinds {
		awaitWatch(r, kind)
	}
}

// deliver forwards the delayed events. If there are none, the fault had no effect.
func deliver(r Run, kind intercept.GroupResource) {
	if r.Operator().Held(kind) == 0 {
		r.MarkUntried("no event of that kind came while the operator worked")
	}
	r.Operator().Release(kind)
	r.LogFault("the watch events of " + kind.String() + " are delivered")
}
