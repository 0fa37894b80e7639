package schema

import (
	"maps"
	"slices"
)

// sites is how many of a list's items, or of a map's entries, are changed one by one.
const sites = 3

// A site is one place in an object where a property is, or could be.
type site struct {
	node   *node
	target Path // the place of the property
	value  any  // what is there, or Absent
	// Where the object changes: target, or the highest of its ancestors that is not there.
	at Path
	// What has to be at `at` for v to be at target. Nil stands for v itself.
	wrap func(v any) (any, bool)
	// Where it could be if nothing fits here: the same place in a parent without its other properties, which may exclude
	// this one. Nil if there is no such parent.
	instead *site
}

// missing is how many ancestors of the property the object lacks.
func (s *site) missing() int { return len(s.target) - len(s.at) }

// A walk collects the sites of one property.
type walk struct {
	steps Path
	found []site
}

// sitesOf finds the places of n in an object.
func (s *Schema) sitesOf(n *node, content map[string]any) []site {
	w := &walk{steps: n.steps}
	if n.steps[0].Name == "metadata" { // whose schema is not that of the custom resource
		value := n.steps.Get(content)
		return []site{{node: n, target: n.steps, at: n.steps, value: value}}
	}
	w.visit(s.root, content, nil)
	return w.found
}

// visit follows the steps from a node whose value is at `at`.
func (w *walk) visit(n *node, value any, at Path) {
	if value == nil && !n.Nullable {
		value = Absent
	}
	if len(at) == len(w.steps) {
		w.found = append(w.found, site{node: n, target: at, at: at, value: value})
		return
	}
	step := w.steps[len(at)]
	switch v := value.(type) {
	case map[string]any:
		if step != anyElement {
			w.visit(n.fields[step.Name], Path{step}.Get(v), at.Then(step))
			if len(v) > 0 {
				w.alternative(n, at)
			}
			return
		}
		keys := slices.Sorted(maps.Keys(v))
		for _, key := range keys[:min(len(keys), sites)] {
			w.visit(n.element, v[key], at.Then(Field(key)))
		}
		if len(keys) == 0 {
			w.absent(n.element, at.Then(Field(newKey)))
		}
	case []any:
		for i := range v[:min(len(v), sites)] {
			w.visit(n.element, v[i], at.Then(Item(i)))
		}
		if len(v) == 0 {
			w.absent(n.element, at.Then(Item(0)))
		}
	default:
		if value == Absent || value == nil {
			w.absent(n, at)
		}
	}
}

// alternative notes for the last found site, if it is below n and absent, that n can be made anew for it.
func (w *walk) alternative(n *node, at Path) {
	last := &w.found[len(w.found)-1]
	if last.value != Absent || last.instead != nil || len(last.at) != len(at)+1 || len(at) == 0 {
		return
	}
	instead := *last
	instead.at = at
	rest := w.steps[len(at):]
	instead.wrap = func(v any) (any, bool) { return n.around(rest, v) }
	last.instead = &instead
}

// absent notes a property for which something has to appear at `at`.
func (w *walk) absent(n *node, at Path) {
	found := site{node: n, target: at, at: at, value: Absent}
	rest := w.steps[len(at):]
	for _, step := range rest {
		if step != anyElement {
			found.node = found.node.fields[step.Name]
			found.target = found.target.Then(step)
			continue
		}
		step = Item(0)
		if found.node.kind() == object {
			step = Field(newKey)
		}
		found.node = found.node.element
		found.target = found.target.Then(step)
	}
	if len(rest) > 0 {
		found.wrap = func(v any) (any, bool) { return n.around(rest, v) }
	}
	w.found = append(w.found, found)
}

// around makes a value of the node, as small as may be, that has v where the steps lead.
func (n *node) around(steps Path, v any) (any, bool) {
	if len(steps) == 0 {
		return v, true
	}
	if step := steps[0]; step != anyElement {
		inner, ok := n.fields[step.Name].around(steps[1:], v)
		content, made := n.minimal(step.Name).(map[string]any)
		if !ok || !made {
			return nil, false
		}
		content[step.Name] = inner
		return content, true
	}
	inner, ok := n.element.around(steps[1:], v)
	if !ok {
		return nil, false
	}
	if n.kind() == object {
		return map[string]any{newKey: inner}, true
	}
	list, ok := n.minimal("").([]any)
	if !ok {
		return nil, false
	}
	if len(list) == 0 {
		return []any{inner}, true
	}
	list[0] = inner
	return list, true
}
