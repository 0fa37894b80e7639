package sequence

import (
	"slices"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

// maxChanges is the maximum number of changes of a step.
const maxChanges = 3

// propose makes a step from the current object. It returns false if no choices are left. The step has no changes if the
// choices lead to none.
func (g *Generator) propose() (Step, bool) {
	step := Step{Object: g.current}
	var properties []string
	for range maxChanges {
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
			step.Object = changed
			step.Changes = append(step.Changes, change)
			properties = append(properties, change.Property)
		}
		if !g.chooser.more() {
			break
		}
	}
	return step, true
}

// change chooses a change of the step's object, of a property that the step has not changed yet. It returns false if
// there is none.
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

// Weights of properties and of changes. Only their ratios matter.
const (
	ordinary  = 1 << 12
	unseen    = 6 // factor for a property that no step has exercised
	important = 3 // factor for a property with a meaning
	untried   = 4 // factor for a kind of change that was not made yet
	distance  = 2 // divisor for each ancestor to create, so that large deep objects do not dominate
	farthest  = 4 // maximum number of ancestors that count
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
	return max(w/(1+g.cover.rejectionsOf(property)), 1)
}

func (g *Generator) weights(changes []schema.Change) []int {
	weights := make([]int, len(changes))
	for i, c := range changes {
		w := ordinary
		if g.tried[changeKey(c)] == 0 {
			w *= untried
		}
		if c.Semantic {
			w *= important
		}
		weights[i] = max(w/(1+g.rejected[changeKey(c)]), 1)
	}
	return weights
}
