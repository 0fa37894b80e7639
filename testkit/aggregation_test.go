package testkit_test

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit"
)

// The API tier has no controllers. Its aggregated ClusterRoles have the rules of the roles that they select nevertheless, so
// that a binding of edit needs the verb bind.
func TestAggregatedClusterRoles(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	grants := func(resource string) testkit.Check {
		return testkit.Match("grants "+resource, func(role *rbacv1.ClusterRole) bool {
			return slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, resource) })
		})
	}
	k.Eventually(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "edit"}}, grants("configmaps"))
	selected := map[string]string{"aggregate-to": k.Namespace}
	all := &rbacv1.ClusterRole{
		ObjectMeta:      metav1.ObjectMeta{Name: k.Namespace + "-all"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: selected}}},
	}
	k.Apply(all)
	k.Apply(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-part", Labels: selected},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"example.com"}, Resources: []string{"gadgets"}, Verbs: []string{"get"}},
		},
	})
	k.Eventually(all, grants("gadgets"))
}
