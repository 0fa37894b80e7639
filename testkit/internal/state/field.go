package state

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Field is the canonical path of a field of an object.
type Field []string

// String returns the path with dots.
func (f Field) String() string { return strings.Join(f, ".") }

// Equal reports whether two paths are equal.
func (f Field) Equal(other Field) bool { return slices.Equal(f, other) }

// ChangedFields returns the fields with different values in two versions of an object: labels, annotations, and all fields
// outside of metadata and status. A list is one field.
func (n *NameMap) ChangedFields(before, after *unstructured.Unstructured) []Field {
	a, b := settable(before), settable(after)
	return n.changed(nil, nil, a, b)
}

// settable returns the fields of an object that a user may set.
func settable(u *unstructured.Unstructured) map[string]any {
	o := maps.Clone(u.Object)
	delete(o, "status")
	metadata := map[string]any{}
	for _, name := range []string{"labels", "annotations"} {
		if m, ok, _ := unstructured.NestedMap(u.Object, "metadata", name); ok {
			metadata[name] = m
		}
	}
	o["metadata"] = metadata
	return o
}

// At returns the text at a field, in its canonical form, or "" if there is none.
func (n *NameMap) At(u *unstructured.Unstructured, field Field) string {
	_, v := n.Find(u, field)
	text, _ := v.(string)
	return n.Text(text)
}

// Find returns the path of a field in an object, and the value. The path is nil if the object lacks the field.
func (n *NameMap) Find(u *unstructured.Unstructured, field Field) (path []string, v any) {
	v = settable(u)
	for _, name := range field {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, nil
		}
		all := slices.Sorted(maps.Keys(m))
		i := slices.IndexFunc(all, func(key string) bool { return n.Text(key) == name })
		if i < 0 {
			return nil, nil
		}
		path = append(path, all[i])
		v = m[all[i]]
	}
	return path, v
}

func (n *NameMap) changed(all []Field, path Field, a, b any) []Field {
	x, aMap := a.(map[string]any)
	y, bMap := b.(map[string]any)
	if (aMap || a == nil) && (bMap || b == nil) && (aMap || bMap) {
		for _, key := range keys(x, y) {
			all = n.changed(all, append(slices.Clone(path), n.Text(key)), x[key], y[key])
		}
		return all
	}
	if !reflect.DeepEqual(a, b) {
		all = append(all, path)
	}
	return all
}

// Without returns a state without fields of objects, which are given by the canonical names of their objects. An object with
// a generated name may have another number in the state, so the fields are removed from all objects of its group.
func Without(s State, fields map[string][]Field) State {
	if len(fields) == 0 {
		return s
	}
	out := maps.Clone(s)
	for name, paths := range fields {
		group, _, isNumbered := strings.Cut(name, "~")
		for key, v := range out {
			if key != name && (!isNumbered || !strings.HasPrefix(key, group+"~")) {
				continue
			}
			for _, path := range paths {
				v = without(v, path)
			}
			out[key] = v
		}
	}
	return Renumber(out)
}

// without returns a value without a field, and without the maps that it leaves empty. Metadata may be empty in a state.
func without(v any, path Field) any {
	m, ok := v.(map[string]any)
	if !ok || len(path) == 0 {
		return v
	}
	below, ok := m[path[0]]
	if !ok {
		return v
	}
	m = maps.Clone(m)
	if len(path) > 1 {
		below = without(below, path[1:])
	}
	if rest, ok := below.(map[string]any); len(path) == 1 || ok && len(rest) == 0 && path[0] != "metadata" {
		delete(m, path[0])
	} else {
		m[path[0]] = below
	}
	return m
}
