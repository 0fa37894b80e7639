package e2e_test

import (
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
)

// checkPermissions compares the permissions that the operator has with the permissions of its version, in its own namespace
// and in another one. They must be equal. OLM grants all of them in all namespaces.
func (s *suite) checkPermissions(csv *v1alpha1.ClusterServiceVersion) {
	s.t.Helper()
	strategy := csv.Spec.InstallStrategy.StrategySpec
	want := map[string]bool{}
	for _, p := range slices.Concat(strategy.ClusterPermissions, strategy.Permissions) {
		fixture.AddPermissions(want, p.Rules)
	}
	// OLM grants these to every operator that watches all namespaces:
	fixture.AddPermissions(want, []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"namespaces"}},
	})
	s.k.Apply(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "stranger", Namespace: csv.Namespace}})
	account := client.ObjectKey{
		Namespace: csv.Namespace, Name: strategy.DeploymentSpecs[0].Spec.Template.Spec.ServiceAccountName,
	}
	s.comparePermissions(account, s.k.Namespace, want)
	fixture.AddPermissions(want, []rbacv1.PolicyRule{{ // and these to each operator in its own namespace
		Verbs: []string{"get", "update", "patch"}, APIGroups: []string{"operators.coreos.com"},
		Resources: []string{"operatorconditions"}, ResourceNames: []string{csv.Name},
	}})
	s.comparePermissions(account, csv.Namespace, want)
}

// comparePermissions asks the API server for the permissions of a ServiceAccount in a namespace, without those that any
// ServiceAccount has.
func (s *suite) comparePermissions(account client.ObjectKey, namespace string, want map[string]bool) {
	s.t.Helper()
	rights := func(account client.ObjectKey) map[string]bool {
		all, err := fixture.Permissions(s.t.Context(), s.k.Client, s.k.Config, account, namespace)
		if err != nil {
			s.t.Fatal(err)
		}
		return all
	}
	got, common := rights(account), rights(client.ObjectKey{Namespace: account.Namespace, Name: "stranger"})
	maps.DeleteFunc(got, func(right string, _ bool) bool { return common[right] })
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		s.t.Errorf("the rights of %s in namespace %s differ, -asked for +given:\n%s", account, namespace, diff)
	}
}
