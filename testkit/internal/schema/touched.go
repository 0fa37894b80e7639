package schema

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Touched returns the properties that differ between two objects, in the order of the schema: those that were added or
// removed, scalars with another value, lists and maps with another number of items. Everything below an added or
// removed property counts. Its ancestors do not.
func (s *Schema) Touched(from, to *unstructured.Unstructured) []string {
	t := &changeCollector{touched: map[string]bool{}}
	for _, n := range s.properties {
		if len(n.steps) == 1 || n.steps[0].Name == "metadata" {
			t.compare(n, n.steps.Get(from.Object), n.steps.Get(to.Object))
		}
	}
	var names []string
	for _, n := range s.properties {
		if t.touched[n.property] {
			names = append(names, n.property)
		}
	}
	return names
}

type changeCollector struct{ touched map[string]bool }

func (t *changeCollector) compare(n *node, from, to any) {
	if reflect.DeepEqual(from, to) {
		return
	}
	f, fromMap := from.(map[string]any)
	g, toMap := to.(map[string]any)
	if fromMap || toMap {
		if fromMap != toMap || n.element != nil && len(f) != len(g) || len(n.fields) == 0 && n.element == nil {
			t.touched[n.property] = true
		}
		t.compareMaps(n, f, g)
		return
	}
	a, fromList := from.([]any)
	b, toList := to.([]any)
	if !fromList && !toList {
		t.touched[n.property] = true
		return
	}
	if fromList != toList || len(a) != len(b) {
		t.touched[n.property] = true
	}
	for i := range max(len(a), len(b)) {
		if n.element != nil {
			t.compare(n.element, Path{Item(i)}.Get(a), Path{Item(i)}.Get(b))
		}
	}
}

func (t *changeCollector) compareMaps(n *node, from, to map[string]any) {
	keys := slices.Collect(maps.Keys(from))
	for key := range to {
		if _, ok := from[key]; !ok {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		child, ok := n.fields[key]
		if !ok {
			child = n.element
		}
		if child != nil {
			t.compare(child, Path{Field(key)}.Get(from), Path{Field(key)}.Get(to))
		}
	}
}
