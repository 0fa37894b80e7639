package fault

import (
	"fmt"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

var missed = Fault{
	Name: "missed",
	Doc:  "The operator never sees the state of a kind between two steps.",
	Plan: func(in *Input) []Plan {
		var plans []Plan
		for i, kind := range in.Opened {
			if in.WatchEvents[kind] == 0 {
				continue // skipped by lag
			}
			for step := range len(in.Steps) - 1 {
				plans = append(plans, planMissed(i, kind, step, in.Steps[step], in.Steps[step+1]))
			}
		}
		return plans
	},
}

func planMissed(place int, kind intercept.GroupResource, step int, from, to string) Plan {
	return Plan{
		Name: fmt.Sprintf("missed/%s@%s+%s", kind, slug(from), slug(to)), Fault: "missed", place: place,
		ExtraQuiet: true, SkipCounts: true, NoWaitAfter: step + 1,
		Required: step == 0, // an operator watches each kind by code of its own
		Summary:  fmt.Sprintf("the operator never saw what %s were between step %q and step %q", kind, from, to),
		Before: func(r Run, at int) {
			if at == step {
				if step == 0 {
					awaitWatch(r, kind)
				}
				r.Operator().Hold(kind, nil)
				r.LogFault("the watch events of " + kind.String() + " are delayed")
			}
		},
		During: func(r Run, at int) {
			switch {
			case at == step:
				r.WaitIdle()
				if !separates(r) {
					r.Operator().Release(kind)
				}
			case at == step+1 && !r.IsUntried():
				ended := map[intercept.GroupResource]int{kind: r.Operator().Watches(kind)}
				r.Operator().Expire(kind)
				r.LogFault("the watch of " + kind.String() + " ends with 410 Gone: what was held back is never told")
				awaitReopened(r, ended) // the next step must not be missed as well
			}
		},
	}
}

// separates reports whether the next step can follow before the operator has seen this one. Otherwise the fault is untried
// and the run waits after the step.
func separates(r Run) bool {
	reason := ""
	if r.IsStepBlocked() {
		reason = "the first of the two steps waits for what the operator makes of it"
	} else {
		r.AwaitWrites()
		if hasTerminatingObject(r) {
			reason = "an object that is being deleted stays until the operator has seen that"
		}
	}
	if reason == "" {
		return true
	}
	r.MarkUntried(reason)
	r.WaitAfterStep()
	return false
}

// hasTerminatingObject reports whether an object of the scenario has a deletion timestamp and still exists.
func hasTerminatingObject(r Run) bool {
	made := r.CreatedByUser()
	_, terminating := find(r, func(c history.Change) bool {
		return made[c.Object.GetUID()] && c.Object.GetDeletionTimestamp() != nil
	})
	return terminating
}
