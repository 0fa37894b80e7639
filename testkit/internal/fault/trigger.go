package fault

import (
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
)

// A Trigger is a change by the user that an operator reacts to if it watches a kind: it returns to the state of the
// baseline.
type Trigger struct {
	// Text names the change, such as "the deletion of configmaps/web". It is unique.
	Text string
	Kind intercept.GroupResource
	// Step is the step, from 0, after which the change is made, when the operator is idle.
	Step int
	// Do makes the change. It returns false if the operator does not react although nothing else can show that it would.
	Do func(r Run) bool
}

// maxInputTriggers is the number of objects of the scenario of one kind that a trigger may change.
const maxInputTriggers = 2

// triggers returns the candidates, the preferred one of a kind first, for each kind that the operator watches: the deletion
// of a child, and the recreation of an object of the scenario. Custom resources are last, because with them all children go.
// An operator need not react to all candidates.
func triggers(in *Input) []Trigger {
	step := triggerStep(in)
	if step < 0 {
		return nil
	}
	var all []Trigger
	for _, kind := range in.Opened {
		i := slices.IndexFunc(in.Children[step], func(c baseline.Child) bool { return c.Kind == kind && mayDelete(in, step, c) })
		if i < 0 || in.WatchEvents[kind] == 0 {
			continue
		}
		child := in.Children[step][i]
		all = append(all, Trigger{
			Text: "the deletion of " + child.Name, Kind: kind, Step: step,
			Do: func(r Run) bool { deleteChild(r, child); return true },
		})
	}
	inputs := inputTriggers(in, step)
	slices.SortStableFunc(inputs, func(a, b Trigger) int { return isCustomKind(a.Kind) - isCustomKind(b.Kind) })
	return append(all, inputs...)
}

// triggerStep returns the last step after which there are children that a user may delete, or else the last step; -1 if
// nothing is known of it.
func triggerStep(in *Input) int {
	last := min(len(in.Steps), len(in.Children), len(in.Checkpoints)) - 1
	for step := last; step >= 0; step-- {
		if slices.ContainsFunc(in.Children[step], func(c baseline.Child) bool { return mayDelete(in, step, c) }) {
			return step
		}
	}
	return last
}

// inputTriggers returns the recreations of objects of the scenario.
func inputTriggers(in *Input, step int) []Trigger {
	var all []Trigger
	tried := map[intercept.GroupResource]int{}
	for _, name := range slices.Sorted(maps.Keys(in.UserObjects)) {
		resource, _, _ := strings.Cut(name, "/")
		i := slices.IndexFunc(in.Opened, func(k intercept.GroupResource) bool { return k.String() == resource })
		_, exists := in.Checkpoints[step][name]
		if i < 0 || in.WatchEvents[in.Opened[i]] == 0 || !exists || whyNotRecreated(in, name) != "" ||
			slices.ContainsFunc(in.Children[step], func(c baseline.Child) bool { return c.Name == name }) {
			continue
		}
		if tried[in.Opened[i]]++; tried[in.Opened[i]] <= maxInputTriggers {
			all = append(all, Trigger{
				Text: "the recreation of " + name, Kind: in.Opened[i], Step: step,
				Do: func(r Run) bool { return triggerByRecreation(r, baseline.Child{Name: name}) },
			})
		}
	}
	return all
}

// isCustomKind returns 1 for the kind of custom resources, and otherwise 0.
func isCustomKind(kind intercept.GroupResource) int {
	if readiness.IsCustomGroup(kind.Group) {
		return 1
	}
	return 0
}

// triggerByRecreation deletes an object of the scenario, waits for the operator, and creates the object again. It reports
// whether the operator reacted to the deletion. That of a custom resource may need no reaction: its children are garbage.
func triggerByRecreation(r Run, input baseline.Child) bool {
	reacted := true
	recreate(r, input, func(live history.Change) {
		if readiness.IsCustom(live.Object) {
			awaitCollected(r, live)
		} else {
			reacted = r.AwaitReaction(live.Object.GetUID())
		}
		r.WaitIdle()
	})
	return reacted
}

// collectionTime limits the wait for the garbage collector: an operator may create the children again and again.
const collectionTime = 2 * time.Second

// awaitCollected waits until the children of a deleted object are gone.
func awaitCollected(r Run, owner history.Change) {
	began := time.Now()
	for {
		_, exists := find(r, func(c history.Change) bool {
			return slices.ContainsFunc(c.Object.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
				return o.UID == owner.Object.GetUID()
			})
		})
		if !exists || time.Since(began) > collectionTime {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-r.Space().Context().Done():
			return
		}
	}
}
