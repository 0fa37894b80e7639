package schema_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

func TestRender(t *testing.T) {
	t.Parallel()
	stored := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"on": "yes", "port": int64(9223372036854775807), "list": []any{"a", map[string]any{"b": nil}}},
		"data": map[string]any{"k": "1e3"},
		"kind": "Thing", "apiVersion": "example.com/v1",
		"metadata": map[string]any{
			"namespace": "n", "name": "t", "uid": "u", "resourceVersion": "1", "generation": int64(2),
			"creationTimestamp": "2020-01-01T00:00:00Z", "managedFields": []any{}, "finalizers": []any{"x/y"},
			"ownerReferences": []any{}, "labels": map[string]any{},
			"annotations": map[string]any{
				"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "two\nlines",
			},
		},
		"status": map[string]any{"phase": "Ready"},
	}}
	const want = `apiVersion: example.com/v1
kind: Thing
metadata:
  name: t
  namespace: "n"
  annotations:
    a: |-
      two
      lines
data:
  k: "1e3"
spec:
  list:
  - a
  - b: null
  "on": "yes"
  port: 9223372036854775807
`
	got, err := schema.Render(stored)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if stored.Object["status"] == nil || stored.GetAnnotations()["kubectl.kubernetes.io/last-applied-configuration"] == "" {
		t.Error("the object was changed")
	}
}

func TestRenderRejectsNonJSON(t *testing.T) {
	t.Parallel()
	if _, err := schema.Render(&unstructured.Unstructured{Object: map[string]any{"spec": func() {}}}); err == nil {
		t.Error("a function was encoded")
	}
	got, err := schema.Render(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"a": 1}}})
	if err != nil || string(got) != "spec:\n  a: 1\n" {
		t.Errorf("a Go int was not encoded: %s %v", got, err)
	}
}

// TestRenderIsReadable checks that each generated object is equal after printing and reading it.
func TestRenderIsReadable(t *testing.T) {
	t.Parallel()
	for name, tc := range subjects(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range mutations(t, tc.schema, tc.object) {
				changed, _ := c.Apply(tc.object)
				roundTrip(t, c.ID, changed)
			}
		})
	}
}

func FuzzRender(f *testing.F) {
	f.Add("on", "- x: #", int64(1), 0.5)
	f.Fuzz(func(t *testing.T, key, value string, i int64, x float64) {
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "K", "metadata": map[string]any{"name": value, "labels": map[string]any{key: value}},
			"spec": map[string]any{key: []any{value, i, x, map[string]any{key: value}}},
		}}
		if data, err := obj.MarshalJSON(); err != nil || obj.UnmarshalJSON(data) != nil {
			t.Skip("not JSON")
		}
		roundTrip(t, fmt.Sprintf("%q", value), obj)
	})
}

func roundTrip(t *testing.T, name string, obj *unstructured.Unstructured) {
	t.Helper()
	data, err := schema.Render(obj)
	if err != nil {
		t.Fatal(err)
	}
	read := &unstructured.Unstructured{}
	asJSON, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, data)
	}
	if err := read.UnmarshalJSON(asJSON); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, data)
	}
	if want := schema.Manifest(obj); !reflect.DeepEqual(want, read) {
		t.Errorf("%s: -want +got:\n%s\n%s", name, cmp.Diff(want.Object, read.Object), data)
	}
}
