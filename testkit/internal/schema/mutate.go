package schema

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Mutations returns all interesting changes of a single property of an object, in the order of the schema. The object
// is a manifest as a person would write it. Fields that the API server adds may be present and are not changed. A
// change is omitted if it violates the schema in a way that the object itself does not. Values are JSON values, as in
// Normal.
//
// It is an error if the object is of another kind, or cannot be converted to JSON.
func (s *Schema) Mutations(obj *unstructured.Unstructured) ([]Change, error) {
	m, err := s.mutator(obj)
	if err != nil {
		return nil, err
	}
	var all []Change
	for _, n := range s.properties {
		all = append(all, m.changes(n)...)
	}
	return all, nil
}

// MutationsOf returns the Mutations of one property, and none if the schema does not have it.
func (s *Schema) MutationsOf(obj *unstructured.Unstructured, property string) ([]Change, error) {
	m, err := s.mutator(obj)
	if err != nil {
		return nil, err
	}
	n, ok := s.index[property]
	if !ok {
		return nil, nil
	}
	return m.changes(n), nil
}

// Missing returns the number of the property's ancestors that have to be created in obj so that the property exists at
// one more place. It is 0 if there is such a place already.
func (s *Schema) Missing(obj *unstructured.Unstructured, property string) int {
	n, ok := s.index[property]
	if !ok {
		return 0
	}
	least := len(n.steps)
	for _, at := range s.sitesOf(n, obj.Object) {
		least = min(least, at.missing())
	}
	return least
}

// A mutator changes one object.
type mutator struct {
	schema  *Schema
	content map[string]any
	broken  map[string]bool // violations of the object itself
}

func (s *Schema) mutator(obj *unstructured.Unstructured) (*mutator, error) {
	normal, err := s.Normal(obj)
	if err != nil {
		return nil, err
	}
	m := &mutator{schema: s, content: normal.Object, broken: map[string]bool{}}
	for _, violation := range s.violations(normal.DeepCopy()) {
		m.broken[violation.Type.String()+" "+violation.Field] = true
	}
	return m, nil
}

// changes returns the changes of one property at all of its sites.
func (m *mutator) changes(n *node) []Change {
	var all []Change
	for _, at := range m.schema.sitesOf(n, m.content) {
		changes := m.changesAt(at)
		if len(changes) == 0 && at.fallback != nil {
			changes = m.changesAt(*at.fallback)
		}
		all = append(all, changes...)
	}
	return all
}

func (m *mutator) changesAt(at site) []Change {
	var all []Change
	for _, v := range at.node.variants(at.value) {
		change, ok := m.change(at, v)
		if !ok {
			continue
		}
		known := false
		for _, c := range all {
			known = known || c.Path.String() == change.Path.String() && reflect.DeepEqual(c.To, change.To)
		}
		if !known {
			all = append(all, change)
		}
	}
	return all
}

// change builds the change for a variant. It returns false if nothing would change, or the schema would be violated.
func (m *mutator) change(at site, v variant) (Change, bool) {
	change := Change{
		Path: at.at, To: v.value, Kind: v.kind, Semantic: v.semantic,
		PropertyPath: at.target, Property: at.node.property, ID: at.target.String() + "/" + v.kind,
	}
	if at.wrap != nil {
		wrapped, ok := at.wrap(v.value)
		if !ok || v.value == Absent {
			return Change{}, false
		}
		change.To = wrapped
	}
	change = change.narrowed(at.at.Get(m.content))
	changed, ok := change.Apply(&unstructured.Unstructured{Object: m.content})
	if !ok || reflect.DeepEqual(change.From, change.To) {
		return Change{}, false
	}
	for _, violation := range m.schema.violations(changed) {
		if !m.broken[violation.Type.String()+" "+violation.Field] {
			return Change{}, false
		}
	}
	return change, true
}

// narrowed reduces the change to the item or entry that it appends, removes or alters, if there is only one.
func (c Change) narrowed(from any) Change {
	c.From = from
	if differences := diff(nil, c.Path, c.From, c.To); len(differences) == 1 {
		c.Path = differences[0].Path
		c.From = differences[0].From
		c.To = differences[0].To
	}
	return c
}

// Normal returns a copy of obj as decoded JSON. An object without a kind gets the kind of the schema.
func (s *Schema) Normal(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	normal, err := jsonOf(obj)
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	if normal.GetKind() == "" && normal.GetAPIVersion() == "" {
		normal.SetGroupVersionKind(s.Kind)
	}
	if normal.GroupVersionKind() != s.Kind {
		return nil, fmt.Errorf("%s %s is a %s, but the schema is that of %s: give an object of this kind and version",
			normal.GetKind(), normal.GetName(), normal.GroupVersionKind(), s.Kind)
	}
	return normal, nil
}
