package schema_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason   string
		from, to any
		want     []string
	}{
		"same":   {"nothing differs", map[string]any{"a": int64(1)}, map[string]any{"a": int64(1)}, nil},
		"scalar": {"it has another value", int64(1), "1", []string{`spec: 1 -> "1"`}},
		"fields": {
			"in the order of their names",
			map[string]any{"b": true, "c": int64(1)},
			map[string]any{"a": nil, "c": int64(2)},
			[]string{"spec.a: unset -> null", "spec.b: true -> unset", "spec.c: 1 -> 2"},
		},
		"longer list": {
			"items are added at the end",
			[]any{"a"},
			[]any{"b", "c"},
			[]string{`spec[0]: "a" -> "b"`, `spec[1]: unset -> "c"`},
		},
		"shorter list": {
			"items go from the end",
			[]any{"a", "b", "c"},
			[]any{"a"},
			[]string{`spec[2]: "c" -> unset`, `spec[1]: "b" -> unset`},
		},
		"other type": {"a list is not an object", []any{}, map[string]any{}, []string{"spec: [] -> {}"}},
		"odd names": {
			"they are in brackets",
			map[string]any{},
			map[string]any{"a.b/c": "d"},
			[]string{`spec[a.b/c]: unset -> "d"`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := &unstructured.Unstructured{Object: map[string]any{"spec": tc.from}}
			to := &unstructured.Unstructured{Object: map[string]any{"spec": tc.to}}
			var got []string
			for _, c := range schema.Diff(from, to) {
				got = append(got, c.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestAppliedDiffGivesTarget checks that applying the differences in order turns the first object into the second.
func TestAppliedDiffGivesTarget(t *testing.T) {
	t.Parallel()
	s := database(t)
	from, to := sample(t), sample(t)
	for i, property := range s.Properties() {
		if i%20 == 0 {
			to = from
		}
		changes, err := s.MutationsOf(to, property)
		if err != nil {
			t.Fatal(err)
		}
		if len(changes) == 0 { // for example one of two alternatives, if there is only one
			continue
		}
		to, _ = changes[i%len(changes)].Apply(to)
		got := from
		for _, c := range schema.Diff(from, to) {
			var ok bool
			if got, ok = c.Apply(got); !ok {
				t.Fatalf("%v cannot be applied", c)
			}
		}
		if !reflect.DeepEqual(got, to) {
			t.Fatalf("-want +got:\n%s", cmp.Diff(to.Object, got.Object))
		}
	}
}

func TestMissingPath(t *testing.T) {
	t.Parallel()
	content := map[string]any{"a": []any{int64(1)}, "b": "c"}
	tests := map[string]struct {
		reason string
		path   schema.Path
		value  any
	}{
		"no parent":         {"x is not there", schema.At("x", "y"), 1},
		"removed twice":     {"x is not there", schema.At("x"), schema.Absent},
		"beyond the list":   {"it has 1 item", schema.At("a", 2), 1},
		"in a missing item": {"it has 1 item", schema.At("a", 1, "y"), 1},
		"no item to remove": {"it has 1 item", schema.At("a", 1), schema.Absent},
		"field of a list":   {"a is a list", schema.At("a", "y"), 1},
		"item of an object": {"the root is an object", schema.At(0), 1},
		"field of a string": {"b is a string", schema.At("b", "y"), 1},
		"inside a number":   {"it is a number", schema.At("a", 0, 0), 1},
	}
	for name, tc := range tests {
		if got, ok := tc.path.Set(content, tc.value); ok || !reflect.DeepEqual(got, content) {
			t.Errorf("%s: %s, but %s was set: %v", name, tc.reason, tc.path, got)
		}
		if got := tc.path.Get(content); got != schema.Absent {
			t.Errorf("%s: %s, but %s is %v", name, tc.reason, tc.path, got)
		}
	}
	obj := &unstructured.Unstructured{Object: content}
	got, ok := schema.Change{Path: schema.At("x", "y"), To: true}.Apply(obj)
	if ok || !reflect.DeepEqual(got, obj) {
		t.Errorf("a change of a missing place was applied: %v", got)
	}
}

func TestTouched(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		path   schema.Path
		value  any
		want   []string
	}{
		"scalar":    {"only the scalar itself", schema.At("spec", "members"), int64(1), []string{"spec.members"}},
		"in a list": {"the length of the list is unchanged", users(0, "role"), "reader", []string{"spec.users[*].role"}},
		"longer list": {
			"the list and the properties of the item",
			schema.At("spec", "users", 2),
			map[string]any{"name": "x"},
			[]string{"spec.users", "spec.users[*]", "spec.users[*].name"},
		},
		"removed": {
			"everything below it",
			schema.At("spec", "exposure"),
			schema.Absent,
			[]string{"spec.exposure", "spec.exposure.nodePort", "spec.exposure.nodePort.port"},
		},
		"key of a map": {
			"the map has another key",
			schema.At("spec", "parameters", "x"),
			"y",
			[]string{"spec.parameters", "spec.parameters[*]"},
		},
		"label": {
			"metadata counts",
			schema.At("metadata", "labels"),
			schema.Absent,
			[]string{"metadata.labels"},
		},
		"name": {"users do not change it", schema.At("metadata", "name"), "x", nil},
		"unknown": {
			"an unknown property counts as a change of its parent",
			schema.At("spec", "extra"),
			map[string]any{"x": "y"},
			[]string{"spec.extra"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := sample(t)
			changed, ok := schema.Change{Path: tc.path, To: tc.value}.Apply(obj)
			if !ok {
				t.Fatal("the change cannot be applied")
			}
			if diff := cmp.Diff(tc.want, database(t).Touched(obj, changed)); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func users(i int, field string) schema.Path {
	return schema.At("spec", "users", i, field)
}
