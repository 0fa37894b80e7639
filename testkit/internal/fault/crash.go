package fault

import (
	"fmt"
	"net/http"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

var crashBefore = Fault{
	Name: "crash-before",
	Doc:  "The operator is killed right before a write, and started again.",
	Plan: func(in *Input) []Plan {
		var plans []Plan
		last := -1 // index of the last effective write
		for i, t := range in.Calls {
			if !t.Writes {
				continue
			}
			if why := skipReason(t); why != "" {
				plans = append(plans, skipped("crash", t.ID(), why, i))
				continue
			}
			if last >= 0 && last == i-1 && in.Calls[last].Step == t.Step {
				plans = append(plans,
					skipped("crash-before", t.ID(), "it is the same moment as right after the write before", i))
			} else {
				plans = append(plans, Plan{
					Name: "crash-before/" + t.ID(), Fault: "crash-before", Target: t.ID(), Step: t.Step, place: i,
					Summary: fmt.Sprintf("the operator was killed right before the %s, and started again", t),
					OnRequest: func(r Run, _ *http.Request, c *intercept.Call) (*http.Response, error) {
						r.Crash(c.Process)
						return nil, intercept.ErrDisconnected
					},
				})
			}
			last = i
		}
		return append(plans, crashesBeforeExchange(in)...)
	},
}

var crashAfter = Fault{
	Name: "crash-after",
	Doc:  "The operator is killed right after a write, and started again.",
	Plan: func(in *Input) []Plan {
		return append(crashesAfterExchange(in), atWrites(in, func(i int, t baseline.Target) []Plan {
			return []Plan{{
				Name: "crash-after/" + t.ID(), Fault: "crash-after", Target: t.ID(), Step: t.Step, place: i,
				Summary:    fmt.Sprintf("the operator was killed right after the %s, and started again", t),
				OnResponse: crash,
			}}
		})...)
	},
}

var crashDeleted = Fault{
	Name: "crash-deleted",
	Doc:  "The operator is killed right after a write, and the custom resources are deleted before it is started again.",
	Plan: func(in *Input) []Plan {
		return atWrites(in, func(i int, t baseline.Target) []Plan {
			var plans []Plan
			if t.Creates || in.Restored[t.Kind.String()+"/"+t.Object] {
				p := planCrashDeleted(i, t, len(in.Steps))
				if hasUncollected(in, t.Kind, t.Object) {
					p.Weight = 1
				}
				plans = append(plans, p)
			}
			return append(plans,
				skipped("crash-lost", t.ID(), "it is the same as crash-after: no process is left to receive the answer", i))
		})
	},
}

func planCrashDeleted(i int, t baseline.Target, steps int) Plan {
	return Plan{
		Name: "crash-deleted/" + t.ID(), Fault: "crash-deleted", Target: t.ID(), place: i,
		ExtraQuiet: true, SkipCounts: true, DeletesEarly: true,
		Summary: fmt.Sprintf(
			"the operator was killed right after the %s, and the custom resources were deleted before it was started again", t),
		OnResponse: crash,
		During: func(r Run, at int) {
			if at == steps && r.Running() == 0 {
				r.Start()
			}
		},
	}
}

// atWrites returns the plans for each write that is worth a run.
func atWrites(in *Input, plan func(i int, t baseline.Target) []Plan) []Plan {
	var plans []Plan
	for i, t := range in.Calls {
		if t.Writes && skipReason(t) == "" {
			plans = append(plans, plan(i, t)...)
		}
	}
	return plans
}

// crash kills the sender of a completed request.
func crash(r Run, c *intercept.Call, resp *http.Response) (*http.Response, error) {
	_ = resp.Body.Close()
	r.Crash(c.Process)
	return nil, intercept.ErrDisconnected
}
