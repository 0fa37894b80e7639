package fault

import (
	"fmt"
	"slices"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

var watchClosed = Fault{
	Name: "watch-closed",
	Doc:  "All watches end without an error. Later events must reach the operator.",
	Plan: planWatch("watch-closed", "all watches ended without a word", (*intercept.Interceptor).Close),
}

var watchBroken = Fault{
	Name: "watch-broken",
	Doc:  "The connections of all watches break. Later events must reach the operator.",
	Plan: planWatch("watch-broken", "the connections of all watches broke", (*intercept.Interceptor).Break),
}

var watchExpired = Fault{
	Name: "watch-expired",
	Doc:  "All watches end with 410 Gone. Later events must reach the operator.",
	Plan: planWatch("watch-expired", "all watches ended with 410 Gone", (*intercept.Interceptor).Expire),
}

// endWatches ends all watches of a kind and returns their number.
type endWatches func(ic *intercept.Interceptor, kind intercept.GroupResource) int

// planWatch returns a planner that ends all watches right after each step. An operator that has lost one may have nothing
// more to do in the scenario, so all watches end again before the triggers: some may have been opened later.
func planWatch(fault, text string, end endWatches) func(in *Input) []Plan {
	return func(in *Input) []Plan {
		endAll := func(r Run) map[intercept.GroupResource]int {
			ended := map[intercept.GroupResource]int{}
			for _, kind := range in.Opened {
				if n := end(r.Operator(), kind); n > 0 {
					ended[kind] = n
				}
			}
			if len(ended) > 0 {
				r.LogFault(text)
			}
			return ended
		}
		all := triggers(in)
		var plans []Plan
		for step, name := range in.Steps {
			plans = append(plans, Plan{
				Name: fault + "@" + slug(name), Fault: fault, Step: step + 1, place: step, ExtraQuiet: true, MergesEvents: true,
				Summary: fmt.Sprintf("right after step %q %s", name, text),
				During: func(r Run, at int) {
					if at == step {
						endAll(r)
					}
				},
				Triggers:       slices.DeleteFunc(slices.Clone(all), func(t Trigger) bool { return t.Step < step }),
				BeforeTriggers: func(r Run) { awaitReopened(r, endAll(r)) },
			})
		}
		return plans
	}
}

// reopenTime is the time for the operator to open its watches again. Client libraries pause before.
const reopenTime = 2 * time.Second

// awaitReopened waits until the operator has as many watches as have ended, and has handled their first events: these would
// make it react to a trigger instead of the event of the trigger.
func awaitReopened(r Run, ended map[intercept.GroupResource]int) {
	lacks := func() bool {
		for kind, n := range ended {
			if r.Operator().Watches(kind) < n {
				return true
			}
		}
		return false
	}
	for began := time.Now(); lacks() && time.Since(began) < reopenTime; {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-r.Space().Context().Done():
			return
		}
	}
	r.Operator().ResetIdleTime()
	r.WaitIdle()
}
