package sequence

import (
	"slices"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// mostChanges is how many changes a step has at most.
const mostChanges = 3

// propose makes a step from the current object. It is false if no choices are left. The step has no changes if the
// choices lead to nothing.
func (g *Generator) propose() (Step, bool) {
	step := Step{Object: g.current}
	var properties []string
	for range mostChanges {
		if !g.chooser.begin() {
			return step, len(step.Changes) > 0
		}
		if g.chooser.restart() {
			return Step{Object: g.sample, Changes: schema.Diff(g.current, g.sample)}, true
		}
		change, ok := g.change(step, properties)
		if !ok {
			return step, true
		}
		changed, ok := change.Apply(step.Object)
		if ok {
			step.Object, step.Changes = changed, append(step.Changes, change)
			properties = append(properties, change.Property)
		}
		if !g.chooser.more() {
			break
		}
	}
	return step, true
}

// change chooses one change of the step's object, of another property than those that the step has changed already.
// It is false if there is none.
func (g *Generator) change(step Step, done []string) (schema.Change, bool) {
	properties := g.schema.Properties()
	weights := make([]int, len(properties))
	left := 0
	for i, p := range properties {
		if !slices.Contains(done, p) {
			weights[i] = g.weight(step, p)
			left++
		}
	}
	for ; left > 0; left-- {
		at := g.chooser.property(weights)
		changes, err := g.schema.MutationsOf(step.Object, properties[at])
		if err == nil && len(changes) > 0 {
			return changes[g.chooser.mutation(g.weights(changes))], true
		}
		weights[at] = 0
	}
	return schema.Change{}, false
}

// Weights of properties and of changes. Only their proportions matter.
const (
	ordinary  = 1 << 12
	unseen    = 6 // times, for a property that no step has exercised
	important = 3 // times, for what has a meaning
	untried   = 4 // times, for a kind of change that was not made yet
	distance  = 2 // divides, for each ancestor that has to appear, so that what is large and deep does not drown the rest
	farthest  = 4 // ancestors count at most
)

func (g *Generator) weight(step Step, property string) int {
	w := ordinary
	if !g.cover.has(property) {
		w *= unseen
	}
	if g.schema.Semantic(property) {
		w *= important
	}
	for range min(g.schema.Missing(step.Object, property), farthest) {
		w /= distance
	}
	return max(w/(1+g.cover.refusedOf(property)), 1)
}

func (g *Generator) weights(changes []schema.Change) []int {
	weights := make([]int, len(changes))
	for i, c := range changes {
		w := ordinary
		if g.tried[about(c)] == 0 {
			w *= untried
		}
		if c.Semantic {
			w *= important
		}
		weights[i] = max(w/(1+g.refused[about(c)]), 1)
	}
	return weights
}
