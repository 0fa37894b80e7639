package schema

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Diff lists what makes one object out of another, property by property and item by item. Applied in order, the
// changes to from give to. Lists are compared place by place, so that a removed first item changes all places.
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
	return append(changes, found(at, from, to))
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
		changes = append(changes, found(at.Then(Item(i)), Absent, to[i]))
	}
	for i := len(from) - 1; i >= common; i-- { // from the end, so that each place is still the last when it goes
		changes = append(changes, found(at.Then(Item(i)), from[i], Absent))
	}
	return changes
}

func found(at Path, from, to any) Change {
	return Change{Path: at, Place: at, From: from, To: to, ID: at.String()}
}
