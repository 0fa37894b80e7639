package fault

import "fmt"

var deleted = Fault{
	Name: "deleted",
	Doc:  "The custom resources are deleted while the operator reconciles a step.",
	Plan: func(in *Input) []Plan {
		var plans []Plan
		for step, name := range in.Steps {
			plans = append(plans, Plan{
				Name: "deleted@" + slug(name), Fault: "deleted", place: step,
				ExtraQuiet: true, SkipCounts: true, DeletesEarly: true,
				Summary: fmt.Sprintf(
					"the custom resources were deleted right after step %q, while the operator was busy with it", name),
				During: func(r Run, at int) {
					if at == step {
						r.LogFault("the custom resources are deleted early")
						r.TearDown()
					}
				},
			})
		}
		return plans
	},
}
