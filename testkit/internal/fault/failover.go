package fault

import (
	"fmt"
	"net/http"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

var failover = Fault{
	Name: "failover",
	Doc:  "The leader of two replicas is killed during a step.",
	Plan: func(in *Input) []Plan {
		var plans []Plan
		for step, name := range in.Steps {
			plans = append(plans, Plan{
				Name: "failover@" + slug(name), Fault: "failover", place: step, ExtraQuiet: true, Replicas: 2,
				Summary: fmt.Sprintf("two replicas ran, and the leader was killed right after step %q", name),
				During: func(r Run, at int) {
					if at != step {
						return
					}
					if leader := leader(r.Operator().Calls()); leader > 0 {
						r.Crash(leader)
					}
				},
			})
		}
		return plans
	},
}

// leader returns the number of the process that holds the Lease, or 0.
func leader(calls []intercept.Call) int {
	leader := 0
	for _, c := range calls {
		if intercept.IsLease(c.Request) && c.IsWrite() && c.Reached && c.Code < http.StatusMultipleChoices {
			leader = c.Process
		}
	}
	return leader
}
