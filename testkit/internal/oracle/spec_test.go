package oracle_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// A write that adds empty fields, as that of a typed client does, increments the generation and does not change the spec.
func TestSpecWrites(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec map[string]any // written by the operator
		want int
	}{
		"another value": {map[string]any{"image": "b"}, 1},
		"a new field":   {map[string]any{"image": "a", "replicas": int64(1)}, 1},
		"empty fields":  {map[string]any{"image": "a", "resources": map[string]any{}, "args": nil}, 0},
	} {
		object := func(version string, generation int64, spec map[string]any) history.Change {
			u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
			u.SetUID("u")
			u.SetName("a")
			u.SetResourceVersion(version)
			u.SetGeneration(generation)
			return history.Change{
				Type: watch.Modified, Object: u, Resource: schema.GroupVersionResource{Group: "example.com", Resource: "sites"},
			}
		}
		request := recorder.Request{Verb: "create", Group: "example.com", Resource: "sites", Name: "a", Code: 201}
		user := intercept.Call{Request: request, UID: "u", Version: "1", Generation: 1, Reached: true}
		request.Verb = "update"
		request.Code = 200
		ours := intercept.Call{Request: request, UID: "u", Version: "2", Generation: 2, Reached: true}
		found := oracle.SpecWrites([]intercept.Call{ours}, []intercept.Call{user},
			[]history.Change{object("1", 1, map[string]any{"image": "a"}), object("2", 2, test.spec)},
			map[intercept.GroupResource]bool{{Group: "example.com", Resource: "sites"}: true})
		if len(found) != test.want {
			t.Errorf("%s: %v, want %d", name, found, test.want)
		}
	}
}
