package fault

import "fmt"

var down = Fault{
	Name: "down",
	Doc:  "The operator does not run during one step, or during two.",
	Plan: func(in *Input) []Plan {
		var plans []Plan
		for step, name := range in.Steps {
			plans = append(plans, planDown(step, name))
			if step > 0 {
				plans = append(plans, planDownTwoSteps(step, in.Steps[step-1], name))
			}
		}
		return append(plans, planDown(len(in.Steps), "deletion"))
	},
}

func planDown(step int, name string) Plan {
	return Plan{
		Name: "down@" + slug(name), Fault: "down", Step: step + 1, place: step, ExtraQuiet: true,
		SkipCounts: true, KeepsObjects: true,
		Summary: fmt.Sprintf("the operator did not run during step %q, and was started after it", name),
		Before: func(r Run, at int) {
			if at == step {
				takeDown(r)
			}
		},
		During: func(r Run, at int) {
			if at == step {
				r.Start()
			}
		},
	}
}

// planDownTwoSteps hides the state between two steps. Neither the operator's memory nor leftovers of the earlier state may
// matter.
func planDownTwoSteps(place int, from, to string) Plan {
	step := place - 1
	return Plan{
		Name: fmt.Sprintf("down@%s+%s", slug(from), slug(to)), Fault: "down", place: place,
		ExtraQuiet: true, SkipCounts: true, NoWaitAfter: step + 1, Required: true,
		Summary: fmt.Sprintf("the operator did not run during steps %q and %q, and was started after them", from, to),
		Before: func(r Run, at int) {
			if at == step {
				takeDown(r)
			}
		},
		During: func(r Run, at int) {
			if at == step && !separates(r) || at == step+1 && !r.IsUntried() {
				r.Start()
			}
		},
	}
}

func takeDown(r Run) {
	r.KillAll()
	r.LogFault("the operator is killed, and stays down")
}
