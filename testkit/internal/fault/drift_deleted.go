package fault

import (
	"fmt"
	"slices"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
)

var driftDeleted = Fault{
	Name: "drift-deleted",
	Doc:  "A child is deleted.",
	Plan: func(in *Input) []Plan {
		return atChildren(in, func(place, step int, c baseline.Child) []Plan {
			switch {
			case isJob(c):
				return []Plan{skipped("drift", c.Name,
					"a Job performs a task once: a user may delete it on purpose, finished or not", place)}
			case slices.Contains(in.Irreplaceable, c.Name):
				return []Plan{skipped("drift-deleted", c.Name, "the operator cannot make it again as it was", place)}
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
