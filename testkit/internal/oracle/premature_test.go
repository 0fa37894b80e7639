package oracle_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/oracle"
)

// An operator can report Ready only after its Deployment has been ready.
func TestPrematureConditions(t *testing.T) {
	t.Parallel()
	shop := func(version, ready string) history.Change {
		status := map[string]any{}
		if ready != "" {
			status["conditions"] = []any{map[string]any{"type": "Ready", "status": ready, "reason": "Because"}}
		}
		return history.Change{
			Type: watch.Modified, Resource: schema.GroupVersionResource{Group: "x.dev", Version: "v1", Resource: "shops"},
			Object: &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "x.dev/v1", "kind": "Shop", "status": status,
				"metadata": map[string]any{"name": "a", "uid": "shop", "resourceVersion": version},
			}},
		}
	}
	deployment := func(kind watch.EventType, version string, ready int64) history.Change {
		available := "False"
		if ready > 0 {
			available = "True"
		}
		return history.Change{
			Type: kind, Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
			Object: &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment",
				"metadata": map[string]any{
					"name": "a", "uid": "d", "resourceVersion": version, "generation": int64(1),
					"ownerReferences": []any{map[string]any{
						"apiVersion": "x.dev/v1", "kind": "Shop", "name": "a", "uid": "shop", "controller": true,
					}},
				},
				"spec": map[string]any{"replicas": int64(1)},
				"status": map[string]any{
					"observedGeneration": int64(1), "replicas": int64(1), "updatedReplicas": int64(1),
					"readyReplicas": ready, "availableReplicas": ready,
					"conditions": []any{
						map[string]any{"type": "Available", "status": available},
						map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
					},
				},
			}},
		}
	}
	added, modified, deleted := watch.Added, watch.Modified, watch.Deleted
	for name, test := range map[string]struct {
		changes []history.Change
		want    bool
	}{
		"waits": {[]history.Change{
			shop("1", ""), deployment(added, "2", 0), shop("3", "False"), deployment(modified, "4", 1), shop("5", "True"),
		}, false},
		"does not": {[]history.Change{
			shop("1", ""), deployment(added, "2", 0), shop("3", "True"), deployment(modified, "4", 1),
		}, true},
		"events in another order": {[]history.Change{
			shop("1", ""), shop("5", "True"), deployment(added, "2", 0), deployment(modified, "4", 1),
		}, false},
		"never reported as ready": {[]history.Change{shop("1", ""), deployment(added, "2", 0), shop("3", "True")}, false},
		"it was, and is again": {[]history.Change{
			deployment(added, "2", 1), deployment(modified, "3", 0), shop("4", "True"), deployment(modified, "5", 1),
		}, false},
		"Ready already": {[]history.Change{
			shop("1", "True"), deployment(added, "2", 0), shop("3", "True"), deployment(modified, "4", 1),
		}, false},
		"made later": {[]history.Change{shop("1", "True"), deployment(added, "2", 0), deployment(modified, "4", 1)}, false},
		"gone": {[]history.Change{
			deployment(added, "2", 0), shop("9", "True"), deployment(modified, "4", 1), deployment(deleted, "6", 1),
		}, false},
	} {
		kinds := map[intercept.GroupResource]bool{{Group: "x.dev", Resource: "shops"}: true}
		found := oracle.PrematureConditions(test.changes, kinds, func(history.Change) bool { return true })
		if (len(found) > 0) != test.want {
			t.Errorf("%s: %v", name, found)
		}
		if len(found) > 0 && !strings.Contains(found[0].Message, "Shop a said Ready, and its Deployment a was not") {
			t.Errorf("%s: %s", name, found[0].Message)
		}
		none := func(history.Change) bool { return false }
		if found := oracle.PrematureConditions(test.changes, kinds, none); len(found) > 0 {
			t.Errorf("%s, written by another manager: %v", name, found)
		}
	}
}
