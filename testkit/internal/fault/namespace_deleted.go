package fault

import "fmt"

// namespaceDeleted simulates the deletion of the namespace: every object of the scenario and of the operator is deleted,
// dependents first, and creations are rejected. The namespace itself and its initial objects stay, because in a test they
// include the operator's prerequisites.
var namespaceDeleted = Fault{
	Name: "namespace-deleted",
	Doc:  "Everything in the namespace is deleted at once, and creations are rejected.",
	Plan: func(in *Input) []Plan {
		var plans []Plan
		for step, name := range in.Steps {
			plans = append(plans, Plan{
				Name: "namespace-deleted@" + slug(name), Fault: "namespace-deleted", place: step,
				ExtraQuiet: true, SkipCounts: true, DeletesEarly: true,
				Summary: fmt.Sprintf("after step %q everything was deleted at once, and nothing could be created any more, "+
					"as when the namespace is deleted", name),
				AfterIdle: func(r Run, at int) {
					if at == step {
						r.LogFault("the namespace is being deleted")
						r.Terminate()
						r.TearDown()
					}
				},
			})
		}
		return plans
	},
}
