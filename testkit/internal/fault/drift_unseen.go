package fault

import (
	"fmt"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
)

var driftUnseen = Fault{
	Name: "drift-unseen",
	Doc:  "A child is deleted while the operator's watch of its kind is interrupted.",
	Plan: func(in *Input) []Plan {
		return atChildren(in, func(place, step int, c baseline.Child) []Plan {
			if is, _ := isRecreated(in, step, c); !is {
				return nil // skipped by drift-deleted
			}
			return []Plan{{
				Name: "drift-unseen/" + c.Name, Fault: "drift-unseen", Step: step + 1, place: place,
				ExtraQuiet: true, SkipCounts: true,
				Summary: fmt.Sprintf("%s was deleted by hand while the operator's watch of %s was interrupted", c.Name, c.Kind),
				AfterIdle: func(r Run, at int) {
					if at != step {
						return
					}
					r.Operator().Hold(c.Kind, nil)
					deleteChild(r, c)
					r.WaitIdle()
					r.Operator().Expire(c.Kind)
					r.Converge(step)
				},
			}}
		})
	},
}
