package oracle_test

import (
	"net/http"
	"slices"
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
	"github.com/homeostat-dev/homeostat/testkit/recorder"
)

// An object must not become Ready for a generation while the workload is rolled out that was changed for it.
func TestUnfinishedRollouts(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	site := func(version int, generation, observed int64, ready string) history.Change {
		return history.Change{
			Type: watch.Modified, Resource: schema.GroupVersionResource{Group: "example.com", Resource: "sites"},
			Object: &unstructured.Unstructured{Object: fields{
				"apiVersion": "example.com/v1", "kind": "Site",
				"metadata": fields{
					"name": "a", "uid": "site", "resourceVersion": strconv.Itoa(version), "generation": generation,
				},
				"status": fields{"conditions": []any{fields{"type": "Ready", "status": ready, "observedGeneration": observed}}},
			}},
		}
	}
	deployment := func(version int, generation, observed, updated int64) history.Change {
		return history.Change{
			Type: watch.Modified, Resource: schema.GroupVersionResource{Group: "apps", Resource: "deployments"},
			Object: &unstructured.Unstructured{Object: fields{
				"apiVersion": "apps/v1", "kind": "Deployment",
				"metadata": fields{
					"name": "a", "uid": "child", "resourceVersion": strconv.Itoa(version), "generation": generation,
					"ownerReferences": []any{fields{"kind": "Site", "name": "a", "uid": "site", "controller": true}},
				},
				"spec":   fields{"replicas": int64(2)},
				"status": fields{"observedGeneration": observed, "updatedReplicas": updated, "availableReplicas": int64(2)},
			}},
		}
	}
	begin := []history.Change{site(1, 1, 1, "True"), deployment(2, 1, 1, 2), site(3, 2, 1, "True")} // then the spec changes
	for name, test := range map[string]struct {
		changes []history.Change
		others  bool // the write at version 4 is not the operator's
		want    int
	}{
		"before the controller": {changes: []history.Change{
			deployment(4, 2, 1, 2), site(5, 2, 2, "True"), deployment(6, 2, 2, 2),
		}, want: 1},
		"during the rollout": {changes: []history.Change{
			deployment(4, 2, 1, 2), deployment(5, 2, 2, 1), site(6, 2, 2, "True"), deployment(7, 2, 2, 2),
		}, want: 1},

		"after the rollout": {changes: []history.Change{
			deployment(4, 2, 1, 2), site(5, 2, 2, "False"), deployment(6, 2, 2, 2), site(7, 2, 2, "True"),
		}},
		"for the generation before": {changes: []history.Change{
			deployment(4, 2, 1, 2), site(5, 2, 1, "True"), deployment(6, 2, 2, 2), site(7, 2, 2, "True"),
		}},
		"without a generation": {changes: []history.Change{
			deployment(4, 2, 1, 2), site(5, 2, 0, "True"), deployment(6, 2, 2, 2),
		}},
		"without a controller": {changes: []history.Change{deployment(4, 2, 1, 2), site(5, 2, 2, "True")}},
		"a write of another client": {changes: []history.Change{
			deployment(4, 2, 1, 2), site(5, 2, 2, "True"), deployment(6, 2, 2, 2),
		}, others: true},
		"a repair for a generation that was Ready": {changes: []history.Change{
			site(4, 2, 2, "True"), deployment(5, 2, 1, 2), site(6, 2, 2, "True"), deployment(7, 2, 2, 2),
		}},
	} {
		changes := slices.Concat(begin, test.changes)
		var calls []intercept.Call
		for _, c := range changes[len(begin):] {
			if c.Resource.Resource == "deployments" && !test.others {
				calls = append(calls, intercept.Call{
					Request: recorder.Request{Verb: "update", Resource: "deployments", Code: http.StatusOK}, Reached: true,
					UID: "child", Version: c.Object.GetResourceVersion(),
				})
			}
		}
		kinds := map[intercept.GroupResource]bool{{Group: "example.com", Resource: "sites"}: true}
		if got := oracle.UnfinishedRollouts(calls, changes, kinds); len(got) != test.want {
			t.Errorf("%s: %v, want %d violations", name, got, test.want)
		}
	}
}
