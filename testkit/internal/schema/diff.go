package schema

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Diff lists the changes from one object to another, property by property and item by item. Applying them to from, in
// order, gives to. Lists are compared by index: the removal of the first item changes every index.
func Diff(from, to *unstructured.Unstructured) []Change {
	return diff(nil, nil, from.Object, to.Object)
}

func diff(changes []Change, at Path, from, to any) []Change {
	switch f := from.(type) {
	case map[string]any:
		if t, ok := to.(map[string]any); ok && (f == nil) == (t == nil) {
			return diffMaps(changes, at, f, t)
		}
	case []any:
		if t, ok := to.([]any); ok && (f == nil) == (t == nil) {
			return diffLists(changes, at, f, t)
		}
	}
	if reflect.DeepEqual(from, to) {
		return changes
	}
	return append(changes, difference(at, from, to))
}

func diffMaps(changes []Change, at Path, from, to map[string]any) []Change {
	keys := slices.Collect(maps.Keys(from))
	for key := range to {
		if _, ok := from[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		step := Path{Field(key)}
		changes = diff(changes, at.Then(step[0]), step.Get(from), step.Get(to))
	}
	return changes
}

func diffLists(changes []Change, at Path, from, to []any) []Change {
	common := min(len(from), len(to))
	for i := range common {
		changes = diff(changes, at.Then(Item(i)), from[i], to[i])
	}
	for i := common; i < len(to); i++ {
		changes = append(changes, difference(at.Then(Item(i)), Absent, to[i]))
	}
	for i := len(from) - 1; i >= common; i-- { // from the end, so that each item is the last one when it is removed
		changes = append(changes, difference(at.Then(Item(i)), from[i], Absent))
	}
	return changes
}

func difference(at Path, from, to any) Change {
	return Change{Path: at, PropertyPath: at, From: from, To: to, ID: at.String()}
}
