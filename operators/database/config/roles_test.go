package config_test

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat-dev/homeostat/testkit"
)

// Viewers may read what editors may write: kubectl apply reads an object before it writes it.
func TestViewersReadAllKinds(t *testing.T) {
	t.Parallel()
	resources := map[string][]string{}
	for _, o := range testkit.Kustomize(t, "access") {
		if o.GetKind() != "ClusterRole" {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			resources[role.Name] = append(resources[role.Name], rule.Resources...)
		}
	}
	if len(resources["database-edit"]) == 0 {
		t.Fatal("database-edit has no resources")
	}
	for _, kind := range resources["database-edit"] {
		if !slices.Contains(resources["database-view"], kind) {
			t.Errorf("database-view lacks %s", kind)
		}
	}
}
