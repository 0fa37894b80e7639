package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// Mask is the set of paths at which states of the same scenario differ without a fault.
type Mask map[string]bool

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
		m[path] = true
	}
}

// Apply returns the state without the masked paths.
func (m Mask) Apply(s State) State {
	out := State{}
	for key, v := range s {
		if !m[key] {
			out[key] = m.apply(key, v)
		}
	}
	return out
}

func (m Mask) apply(path string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			if !m[path+"."+k] {
				out[k] = m.apply(path+"."+k, x)
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for i, x := range v {
			if p := fmt.Sprintf("%s[%d]", path, i); !m[p] {
				out = append(out, m.apply(p, x))
			}
		}
		return out
	default:
		return v
	}
}

// Diff returns the difference between two masked states, or "". See [Difference].
func (m Mask) Diff(want, got State) string { return Difference(m.Apply(want), m.Apply(got)) }
