package e2e

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// operatorWithAllFeatures returns an operator that combines all features of the SDK.
func operatorWithAllFeatures() *siteOperator {
	absent := ofKind(schema.GroupVersionKind{Group: "nowhere.homeostat.dev", Version: "v1", Kind: "Widget"}, "", nil)
	op := operator(func(_ context.Context, p *pass) error {
		s := p.Object
		password, err := sdk.Ref(p, named(&corev1.Secret{}, s.Spec.SecretName))
		if err != nil {
			return err
		}
		credentials := sdk.Apply(p, secret(s.Name+"-made-once", string(password.Data["text"])), sdk.CreateOnly())
		replicas := deployment(s)
		replicas.Spec.Replicas = new(int32(2))
		sdk.Apply(p, replicas, sdk.Unmanaged("spec.replicas"), sdk.After(credentials),
			sdk.ReadyWhen(func(*appsv1.Deployment) (bool, string) { return true, "" }))
		frozen := configMap(s, s.Name+"-frozen")
		frozen.Immutable = new(true)
		sdk.Apply(p, frozen, sdk.OnImmutable(sdk.Recreate))
		sdk.Apply(p, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: s.Namespace + "-" + s.Name},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{s.Spec.Text}, Verbs: []string{"get"}}},
		})
		if s.Spec.Extra {
			sdk.Apply(p, configMap(s, s.Name+"-extra"))
		}
		if sdk.Installed(p, absent) {
			sdk.Apply(p, ofKind(absent.GroupVersionKind(), s.Name, nil))
		}
		status := metav1.ConditionFalse
		if s.Spec.Extra {
			status = metav1.ConditionTrue
		}
		p.SetCondition("Extra", status, "Asked", "spec.extra is %t", s.Spec.Extra)
		return nil
	})
	op.Finalize = func(_ context.Context, p *pass) error {
		sdk.Apply(p, configMap(p.Object, p.Object.Name+"-last"))
		return nil
	}
	op.Owns = []client.Object{
		&corev1.Secret{}, &appsv1.Deployment{}, &corev1.ConfigMap{}, &rbacv1.ClusterRole{}, absent,
	}
	return op
}

// With any fault, an operator with every feature of the SDK converges to the same state as without faults.
func TestFaults(t *testing.T) {
	t.Parallel()
	chaos.Sweep(t, operatorWithAllFeatures(), chaos.Scenario{
		{Name: "create", Do: func(k *testkit.K) {
			k.Apply(secret("password", "p"))
			s := newSite("a")
			s.Spec.SecretName = "password"
			s.Spec.Extra = true
			k.Apply(s)
		}},
		{Name: "change", Do: func(k *testkit.K) {
			s := newSite("a")
			k.Update(s, func() {
				s.Spec.Text = "new"
				s.Spec.Extra = false
			})
		}},
		{Name: "delete", Do: func(k *testkit.K) { k.Delete(newSite("a")) }},
	}, chaos.All, chaos.ExternallyManaged("secrets/a-made-once", "deployments.apps/a.spec.replicas"))
}
