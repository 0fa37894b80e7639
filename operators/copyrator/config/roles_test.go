package config_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat-dev/homeostat/testkit"
)

// The role for the operator's namespace equals the other one, and the permissions for Secrets equal those for ConfigMaps.
func TestRolesAreEqual(t *testing.T) {
	t.Parallel()
	rules := func(overlay, kind, name string) []rbacv1.PolicyRule {
		for _, o := range testkit.Kustomize(t, overlay) {
			if o.GetKind() != kind || o.GetName() != name {
				continue
			}
			role := &rbacv1.ClusterRole{} // a Role has the same fields
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
				t.Fatal(err)
			}
			return role.Rules
		}
		t.Fatalf("%s has no %s %s", overlay, kind, name)
		return nil
	}
	all := rules("default", "ClusterRole", "copyrator-operator")
	for _, name := range []string{"copyrator-operator", "copyrator-own"} {
		if diff := cmp.Diff(all, rules("namespaced", "Role", name)); diff != "" {
			t.Errorf("Role %s differs from the ClusterRole (-want +got):\n%s", name, diff)
		}
	}
	all = rules("with-secrets", "ClusterRole", "copyrator-operator")
	secrets := all[len(all)-1:]
	for _, rule := range all {
		if slices.Equal(rule.Resources, []string{"configmaps"}) {
			rule.Resources = []string{"secrets"}
			if diff := cmp.Diff([]rbacv1.PolicyRule{rule}, secrets); diff != "" {
				t.Errorf("the rights for Secrets differ from those for ConfigMaps (-want +got):\n%s", diff)
			}
		}
	}
}
