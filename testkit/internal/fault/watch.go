package fault

import (
	"fmt"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

var watchClosed = Fault{
	Name: "watch-closed",
	Doc:  "All watches end without an error.",
	Plan: planWatch("watch-closed", "all watches ended without a word", (*intercept.Interceptor).Close),
}

var watchBroken = Fault{
	Name: "watch-broken",
	Doc:  "The connections of all watches break.",
	Plan: planWatch("watch-broken", "the connections of all watches broke", (*intercept.Interceptor).Break),
}

var watchExpired = Fault{
	Name: "watch-expired",
	Doc:  "All watches end with 410 Gone.",
	Plan: planWatch("watch-expired", "all watches ended with 410 Gone", (*intercept.Interceptor).Expire),
}

// planWatch returns a planner that ends all watches right after each step.
func planWatch(fault, text string, end func(*intercept.Interceptor, intercept.GroupResource) int) func(in *Input) []Plan {
	return func(in *Input) []Plan {
		var plans []Plan
		for step, name := range in.Steps {
			plans = append(plans, Plan{
				Name: fault + "@" + slug(name), Fault: fault, Step: step + 1, place: step, ExtraQuiet: true,
				Summary: fmt.Sprintf("right after step %q %s", name, text),
				During: func(r Run, at int) {
					if at != step {
						return
					}
					ended := 0
					for _, kind := range in.Opened {
						ended += end(r.Operator(), kind)
					}
					if ended > 0 {
						r.LogFault(text)
					}
				},
			})
		}
		return plans
	}
}
