package fault

import (
	"fmt"

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
			ofKind := make([]Plan, len(in.Steps))
			busiest := 0 // the step with most writes; of equal ones the last, which finds a filled cache
			for step, name := range in.Steps {
				ofKind[step] = planLag(i, kind, step, name)
				ofKind[step].Weight = in.EffectiveWrites(kind, step+1)
				if ofKind[step].Weight >= ofKind[busiest].Weight {
					busiest = step
				}
			}
			ofKind[busiest].Required = ofKind[busiest].Weight > 0
			plans = append(plans, ofKind...)
		}
		return plans
	},
}

func planLag(place int, kind intercept.GroupResource, step int, name string) Plan {
	return Plan{
		Name: fmt.Sprintf("lag/%s@%s", kind, slug(name)), Fault: "lag", Step: step + 1, place: place,
		ExtraQuiet: true,
		Summary:    fmt.Sprintf("during step %q the operator learned of changes of %s late", name, kind),
		Before: func(r Run, at int) {
			if at != step {
				return
			}
			allow := 0
			if r.IsPrimary(kind) {
				allow = 1 // the event of the step's own change: without it, the operator does nothing
			}
			r.Operator().Hold(kind, allow)
			r.LogFault("news of " + kind.String() + " are held back")
		},
		During: func(r Run, at int) {
			if at != step {
				return
			}
			r.WaitIdle()
			triggerReconcile(r)
			r.WaitIdle()
			r.Operator().Release(kind)
			r.LogFault("news of " + kind.String() + " arrive")
		},
	}
}
