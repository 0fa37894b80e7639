package schema

import (
	"maps"
	"slices"
)

// maxSites is the number of a list's items, or of a map's entries, that are changed one by one.
const maxSites = 3

// A site is one place in an object at which a property exists or could be created.
type site struct {
	node   *node
	target Path // the place of the property
	value  any  // the current value, or Absent
	// at is the place at which the object changes: target, or the highest missing ancestor of it.
	at Path
	// wrap returns the value for `at` that puts v at target. Nil returns v itself.
	wrap func(v any) (any, bool)
	// fallback is used if nothing fits here: the same place in a parent without its other properties, because they may
	// exclude this one. It is nil if there is no such parent.
	fallback *site
}

// missing returns the number of ancestors of the property that the object lacks.
func (s *site) missing() int { return len(s.target) - len(s.at) }

// A siteCollector collects the sites of one property.
type siteCollector struct {
	steps Path
	found []site
}

// sitesOf returns the places of n in an object.
func (s *Schema) sitesOf(n *node, content map[string]any) []site {
	w := &siteCollector{steps: n.steps}
	if n.steps[0].Name == "metadata" { // not described by the schema of the custom resource
		value := n.steps.Get(content)
		return []site{{node: n, target: n.steps, at: n.steps, value: value}}
	}
	w.visit(s.root, content, nil)
	return w.found
}

// visit follows the remaining steps from a node with a value at `at`.
func (w *siteCollector) visit(n *node, value any, at Path) {
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
		for _, key := range keys[:min(len(keys), maxSites)] {
			w.visit(n.element, v[key], at.Then(Field(key)))
		}
		if len(keys) == 0 {
			w.absent(n.element, at.Then(Field(newKey)))
		}
	case []any:
		for i := range v[:min(len(v), maxSites)] {
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

// alternative sets the fallback of the last site, if that is below n and absent: a new value of n.
func (w *siteCollector) alternative(n *node, at Path) {
	last := &w.found[len(w.found)-1]
	if last.value != Absent || last.fallback != nil || len(last.at) != len(at)+1 || len(at) == 0 {
		return
	}
	replacement := *last
	replacement.at = at
	rest := w.steps[len(at):]
	replacement.wrap = func(v any) (any, bool) { return n.wrapInParents(rest, v) }
	last.fallback = &replacement
}

// absent records a site of a property that needs new ancestors at `at`.
func (w *siteCollector) absent(n *node, at Path) {
	found := site{node: n, target: at, at: at, value: Absent}
	rest := w.steps[len(at):]
	for _, step := range rest {
		if step != anyElement {
			found.node = found.node.fields[step.Name]
			found.target = found.target.Then(step)
			continue
		}
		step = Item(0)
		if found.node.kind() == typeObject {
			step = Field(newKey)
		}
		found.node = found.node.element
		found.target = found.target.Then(step)
	}
	if len(rest) > 0 {
		found.wrap = func(v any) (any, bool) { return n.wrapInParents(rest, v) }
	}
	w.found = append(w.found, found)
}

// wrapInParents returns the smallest value of the node that has v at the end of the steps.
func (n *node) wrapInParents(steps Path, v any) (any, bool) {
	if len(steps) == 0 {
		return v, true
	}
	if step := steps[0]; step != anyElement {
		inner, ok := n.fields[step.Name].wrapInParents(steps[1:], v)
		content, made := n.minimal(step.Name).(map[string]any)
		if !ok || !made {
			return nil, false
		}
		content[step.Name] = inner
		return content, true
	}
	inner, ok := n.element.wrapInParents(steps[1:], v)
	if !ok {
		return nil, false
	}
	if n.kind() == typeObject {
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
