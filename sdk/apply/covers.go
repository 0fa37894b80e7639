package apply

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// coverage checks whether a manager owns all intended fields. The API server's record has one ambiguity: a map or list that
// is recorded without any field below it is either atomic and owned as a whole, or other managers own everything below it.
// ownsWhole decides these cases.
type coverage struct {
	ownsWhole func(at fieldpath.Path, intended any) bool
}

// covers reports whether every intended field is owned. Identifying fields, such as the name, cannot be owned.
func (s FieldSet) covers(fields map[string]any, whole func(fieldpath.Path, any) bool) bool {
	set, ok := s.set()
	if !ok {
		return false
	}
	c := coverage{whole}
	for name, v := range fields {
		switch name {
		case "apiVersion", "kind":
		case "metadata":
			metadata, _ := v.(map[string]any)
			pe := fieldpath.PathElement{FieldName: &name}
			if !c.metadata(metadata, fieldpath.Path{pe}, set.WithPrefix(pe)) {
				return false
			}
		default:
			if !c.field(name, v, nil, set) {
				return false
			}
		}
	}
	return true
}

func (c coverage) metadata(metadata map[string]any, at fieldpath.Path, set *fieldpath.Set) bool {
	for name, v := range metadata {
		if name != "name" && name != "namespace" && !c.field(name, v, at, set) {
			return false
		}
	}
	return true
}

func (c coverage) field(name string, v any, at fieldpath.Path, set *fieldpath.Set) bool {
	return c.element(fieldpath.PathElement{FieldName: &name}, v, at, set)
}

// element reports whether the value at one path element is owned: the element itself if it is a leaf or atomic, else
// everything below it.
func (c coverage) element(pe fieldpath.PathElement, v any, at fieldpath.Path, set *fieldpath.Set) bool {
	at = append(slices.Clip(at), pe)
	below, ok := set.Children.Get(pe)
	if !ok || below.Empty() {
		return set.Members.Has(pe) && (isLeaf(v) || c.ownsWhole(at, v))
	}
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if !c.field(name, x, at, below) {
				return false
			}
		}
	case []any:
		return c.items(v, at, below)
	}
	return true
}

// items reports whether each item of a list is owned. Items with all keys are matched first: an item that leaves a key to
// the server's default must not match the element of another one.
func (c coverage) items(list []any, at fieldpath.Path, set *fieldpath.Set) bool {
	taken, found := map[string]bool{}, make([]bool, len(list))
	for _, exact := range []bool{true, false} {
		for i, item := range list {
			if found[i] {
				continue
			}
			pe, ok := elementOf(item, i, set, func(pe fieldpath.PathElement) bool {
				return !taken[pe.String()] && (!exact || hasKeys(item, pe))
			})
			switch {
			case !ok && exact:
				continue
			case !ok || !c.element(pe, item, at, set):
				return false
			}
			taken[pe.String()], found[i] = true, true
		}
	}
	return true
}

// isLeaf reports whether nothing below the value can be owned.
func isLeaf(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	default:
		return true
	}
}

// hasValues reports whether the object has these values at the path. It may have more: defaults, fields of other managers,
// and the additions of admission, which may extend even atomic lists.
func hasValues(live client.Object, at fieldpath.Path, intended any) bool {
	fields, err := present(live)
	if err != nil {
		return false
	}
	var found any = fields
	for _, pe := range at {
		if found = child(found, pe); found == nil {
			return false
		}
	}
	return includes(found, intended, true)
}

// child returns the value at a path element, or nil.
func child(v any, pe fieldpath.PathElement) any {
	switch v := v.(type) {
	case map[string]any:
		if pe.FieldName != nil {
			return v[*pe.FieldName]
		}
	case []any:
		for i, item := range v {
			if matchesItem(pe, item, i) {
				return item
			}
		}
	}
	return nil
}

// includes reports whether every intended value is among the present ones. Quantities are compared by amount. Lists are
// compared item by item; if longer is true, each intended item may have any position.
func includes(present, intended any, longer bool) bool {
	switch intended := intended.(type) {
	case map[string]any:
		fields, ok := present.(map[string]any)
		for name, v := range intended {
			if !ok || !includes(fields[name], v, longer) {
				return false
			}
		}
		return ok
	case []any:
		items, ok := present.([]any)
		if !ok || !longer && len(items) != len(intended) {
			return false
		}
		for i, v := range intended {
			is := func(item any) bool { return includes(item, v, longer) }
			if longer && !slices.ContainsFunc(items, is) || !longer && !is(items[i]) {
				return false
			}
		}
		return true
	default:
		return sameScalar(intended, present)
	}
}

// sameScalar reports whether two scalars are equal. The zero value of a field without a pointer is absent in JSON.
func sameScalar(intended, present any) bool {
	if present == nil {
		return intended == nil || reflect.ValueOf(intended).IsZero()
	}
	if value.Equals(value.NewValueInterface(intended), value.NewValueInterface(present)) {
		return true
	}
	a, isText := intended.(string)
	b, alsoText := present.(string)
	if !isText || !alsoText {
		return false
	}
	p, err := resource.ParseQuantity(a)
	q, otherErr := resource.ParseQuantity(b)
	return err == nil && otherErr == nil && p.Cmp(q) == 0
}
