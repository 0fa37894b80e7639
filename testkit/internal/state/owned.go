package state

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// RemoveDefaults removes the fields outside of metadata and status that no manager has set, also the kind.
func RemoveDefaults(u *unstructured.Unstructured) { keepSetFields(u, u.Object) }

// keepSetFields removes the fields outside of metadata and status that no manager has set. They are defaults, and a
// default may depend on history: a pod created with image "web:latest" keeps imagePullPolicy "Always".
func keepSetFields(u *unstructured.Unstructured, fields map[string]any) {
	set := &fieldpath.Set{}
	for _, entry := range u.GetManagedFields() {
		if entry.FieldsV1 == nil || entry.Subresource == "status" {
			continue
		}
		one := &fieldpath.Set{}
		if one.FromJSON(strings.NewReader(entry.FieldsV1.GetRawString())) != nil {
			return // the managers are unknown: all fields count
		}
		set = set.Union(one)
	}
	if set.Empty() {
		return
	}
	if u.GetKind() == "Secret" { // the API server turns stringData into data, which has no manager then
		const from, to = "stringData", "data"
		set = set.Union(renamed(set, from, to))
	}
	for name, v := range fields {
		if name == "metadata" || name == "status" {
			continue
		}
		if kept, ok := keep(fieldpath.PathElement{FieldName: &name}, v, set); ok {
			fields[name] = kept
		} else {
			delete(fields, name)
		}
	}
}

// renamed returns the part of a set below one field, as a set below another one.
func renamed(set *fieldpath.Set, from, to string) *fieldpath.Set {
	out := &fieldpath.Set{}
	below, ok := set.Children.Get(fieldpath.PathElement{FieldName: &from})
	if !ok {
		return out
	}
	below.Iterate(func(path fieldpath.Path) {
		out.Insert(append(fieldpath.Path{{FieldName: &to}}, path...))
	})
	return out
}

// keep returns the managed part of the value at one path element.
func keep(pe fieldpath.PathElement, v any, set *fieldpath.Set) (any, bool) {
	below, ok := set.Children.Get(pe)
	if !ok || below.Empty() {
		return v, set.Members.Has(pe)
	}
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, x := range v {
			if kept, ok := keep(fieldpath.PathElement{FieldName: &name}, x, below); ok {
				out[name] = kept
			}
		}
		return out, true
	case []any:
		out := []any{}
		for i, item := range v {
			if kept, ok := keepItem(i, item, below); ok {
				out = append(out, kept)
			}
		}
		return out, true
	default:
		return v, true
	}
}

// keepItem finds the path element of a list item, by key, value or index.
func keepItem(index int, item any, set *fieldpath.Set) (kept any, ok bool) {
	visit := func(pe fieldpath.PathElement) {
		if !ok && identifies(pe, index, item) {
			kept, ok = keep(pe, item, set)
		}
	}
	set.Children.Iterate(visit)
	set.Members.Iterate(visit)
	return kept, ok
}

func identifies(pe fieldpath.PathElement, index int, item any) bool {
	switch {
	case pe.Key != nil:
		fields, ok := item.(map[string]any)
		if !ok {
			return false
		}
		for _, k := range *pe.Key {
			if !value.Equals(value.NewValueInterface(fields[k.Name]), k.Value) {
				return false
			}
		}
		return true
	case pe.Value != nil:
		return value.Equals(value.NewValueInterface(item), *pe.Value)
	case pe.Index != nil:
		return *pe.Index == index
	default:
		return false
	}
}
