package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// Mask contains the paths at which states of the same scenario differ without a fault: with false if only the values differ,
// and with true if only some of the states have the path.
type Mask map[string]bool

// masked stands for a value that is not compared.
const masked = "(not compared)"

// AddDifferences adds the paths at which two states differ. It returns the keys that only one state has, because a mask does
// not cover them.
func (m Mask) AddDifferences(a, b State) (unsteady []string) {
	for key, v := range a {
		if other, ok := b[key]; ok {
			m.add(key, v, other)
		}
	}
	return append(keysOnlyIn(a, b), keysOnlyIn(b, a)...)
}

func (m Mask) add(path string, a, b any) {
	x, xMap := a.(map[string]any)
	y, yMap := b.(map[string]any)
	p, pList := a.([]any)
	q, qList := b.([]any)
	switch {
	case xMap && yMap:
		for _, k := range slices.Concat(slices.Collect(maps.Keys(x)), slices.Collect(maps.Keys(y))) {
			m.add(path+"."+k, x[k], y[k])
		}
	case pList && qList && len(p) == len(q):
		for i := range p {
			m.add(fmt.Sprintf("%s[%d]", path, i), p[i], q[i])
		}
	case !cmp.Equal(a, b):
		m[path] = m[path] || a == nil || b == nil
	}
}

// Apply returns the state with the masked values replaced, and without the paths that only some states have.
func (m Mask) Apply(s State) State { return m.state(s, true) }

// Remove returns the state without the masked paths.
func (m Mask) Remove(s State) State { return m.state(s, false) }

func (m Mask) state(s State, keepsPaths bool) State {
	out := State{}
	for key, v := range s {
		_, isMasked := m[key]
		switch v, ok := m.value(key, v, keepsPaths); {
		case ok:
			out[key] = v
		case !isMasked: // it exists, although nothing of it is compared
			out[key] = map[string]any{}
		}
	}
	return out
}

// value returns the value at a path, and whether the path remains.
func (m Mask) value(path string, v any, keepsPaths bool) (any, bool) {
	if mayBeAbsent, ok := m[path]; ok {
		return masked, keepsPaths && !mayBeAbsent
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if x, ok := m.value(path+"."+k, x, keepsPaths); ok {
				out[k] = x
			}
		}
		if len(out) == 0 && len(v) > 0 {
			return nil, false // a state without the masked paths has no parent of them either
		}
		return out, true
	case []any:
		out := make([]any, 0, len(v))
		for i, x := range v {
			if x, ok := m.value(fmt.Sprintf("%s[%d]", path, i), x, keepsPaths); ok {
				out = append(out, x)
			}
		}
		return out, true
	default:
		return v, true
	}
}

// Diff returns the difference between two masked states, or "". See [Difference].
func (m Mask) Diff(want, got State) string { return Difference(m.Apply(want), m.Apply(got)) }
