package v1_test

import (
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
)

// checkPermissions compares the permissions that the operator has with the permissions of its version. They must be equal.
// The namespace of the check is not the operator's, because OLM makes ClusterRoles of its Roles if it watches all
// namespaces.
func (i *installation) checkPermissions(version string) {
	i.t.Helper()
	csv := i.csv(version)
	strategy := csv.Spec.InstallStrategy.StrategySpec
	if len(strategy.Permissions) == 0 || len(strategy.ClusterPermissions) == 0 {
		i.t.Fatalf("%s asks for nothing", csv.Name)
	}
	want := map[string]bool{}
	for _, p := range slices.Concat(strategy.ClusterPermissions, strategy.Permissions) {
		fixture.AddPermissions(want, p.Rules)
	}
	i.k.Apply(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "stranger", Namespace: i.home}})
	common := i.rulesOf("stranger")
	got := i.rulesOf(i.deployment(version).Spec.Template.Spec.ServiceAccountName)
	maps.DeleteFunc(got, func(right string, _ bool) bool { return common[right] })
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		i.t.Errorf("the rights differ, -asked for +given:\n%s", diff)
	}
}

// rulesOf asks the API server for the permissions of a ServiceAccount.
func (i *installation) rulesOf(account string) map[string]bool {
	i.t.Helper()
	name := client.ObjectKey{Namespace: i.home, Name: account}
	all, err := fixture.Permissions(i.t.Context(), i.k.Client, i.k.Config, name, i.k.Namespace)
	if err != nil {
		i.t.Fatal(err)
	}
	return all
}
