package fault

import (
	"fmt"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
)

var driftDeleted = Fault{
	Name: "drift-deleted",
	Doc:  "A child is deleted.",
	Plan: func(in *Input) []Plan {
		return atChildren(in, func(place, step int, c baseline.Child) []Plan {
			if isTask(c) {
				return []Plan{skipped("drift", c.Name, whyTask, place)} // neither deleted nor edited
			}
			if is, why := isRecreated(in, step, c); !is {
				return []Plan{skipped("drift-deleted", c.Name, why, place)}
			}
			return []Plan{{
				Name: "drift-deleted/" + c.Name, Fault: "drift-deleted", Step: step + 1, place: place,
				ExtraQuiet: true, SkipCounts: true,
				Summary: fmt.Sprintf("%s was deleted by hand", c.Name),
				AfterIdle: func(r Run, at int) {
					if at == step {
						deleteChild(r, c)
						r.Converge(step)
					}
				},
			}}
		})
	},
}
