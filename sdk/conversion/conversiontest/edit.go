package conversiontest

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// change is what edit has done.
type change int

const (
	unchanged change = iota
	changedValue
	changedObject // an object, with all that is in it
)

// edit changes one place of an object to what another object has there, as a client does.
func (g generator) edit(object, other map[string]any) change {
	names := sortedKeys(object)
	for name := range other {
		if _, ok := object[name]; !ok {
			names = append(names, name)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return inHeader(name) || reflect.DeepEqual(object[name], other[name])
	})
	if len(names) == 0 {
		return unchanged
	}
	slices.Sort(names)
	name := names[g.IntN(len(names))]
	to, ok := other[name]
	m, isMap := object[name].(map[string]any)
	n, otherIsMap := to.(map[string]any)
	if isMap && otherIsMap && !g.chance(6) {
		return g.edit(m, n)
	}
	if ok {
		object[name] = runtime.DeepCopyJSONValue(to)
	} else {
		delete(object, name)
	}
	if isMap {
		return changedObject
	}
	return changedValue
}

// smaller calls f with copies of an object that lack one field or list item, or have a shorter text, until f returns
// true, and then with smaller ones of that. f reports whether a copy still has the property that matters.
func smaller(object map[string]any, f func(map[string]any) bool) {
	for range 300 {
		next, ok := oneSmaller(object, f)
		if !ok {
			return
		}
		object = next
	}
}

func oneSmaller(object map[string]any, f func(map[string]any) bool) (map[string]any, bool) {
	for i := range count(object) {
		n := i
		candidate, ok := remove(copyOf(object), &n, true).(map[string]any)
		if ok && !reflect.DeepEqual(candidate, object) && f(candidate) {
			return candidate, true
		}
	}
	return nil, false
}

// count returns the number of places that remove can change.
func count(v any) int {
	total := 0
	switch v := v.(type) {
	case map[string]any:
		for _, child := range v {
			total += 1 + count(child)
		}
	case []any:
		for _, child := range v {
			total += 1 + count(child)
		}
	case string:
		if len(v) > 1 {
			return 1
		}
	}
	return total
}

func removeField(v map[string]any, n *int, root bool) any {
	for _, name := range sortedKeys(v) {
		if *n == 0 {
			if *n = -1; !root || !inHeader(name) {
				delete(v, name)
			}
			return v
		}
		*n--
		if v[name] = remove(v[name], n, false); *n < 0 {
			return v
		}
	}
	return v
}

// remove removes the nth place of a value, in the order of the depth-first traversal.
func remove(v any, n *int, root bool) any {
	switch v := v.(type) {
	case map[string]any:
		return removeField(v, n, root)
	case []any:
		for i := range v {
			if *n == 0 {
				*n = -1
				return slices.Delete(v, i, i+1)
			}
			*n--
			if v[i] = remove(v[i], n, false); *n < 0 {
				return v
			}
		}
	case string:
		if len(v) > 1 {
			if *n == 0 {
				*n = -1
				return v[:len(v)/2]
			}
			*n--
		}
	}
	return v
}
