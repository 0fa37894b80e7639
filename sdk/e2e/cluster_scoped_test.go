package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A cluster-scoped object may have children in any namespace. It is the controller of each, so that garbage collection
// deletes them without a finalizer.
func TestClusterScopedObject(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := &sdk.Operator[*site.Realm]{
		Name: operatorName, AddToScheme: site.AddToScheme, Resync: -1,
		Owns: []client.Object{&corev1.ConfigMap{}, &rbacv1.ClusterRole{}},
		Reconcile: func(_ context.Context, p *sdk.Pass[*site.Realm]) error {
			o := p.Object
			sdk.Apply(p, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: o.Name}})
			sdk.Apply(p, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "a"}, Data: map[string]string{"text": o.Spec.Text},
			})
			if o.Spec.Extra {
				sdk.Apply(p, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: "extra"}})
			}
			return nil
		},
	}
	running := k.Run(op)
	r := &site.Realm{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}, Spec: site.Spec{Text: "hello", Extra: true}}
	k.Apply(r)
	k.Eventually(r, testkit.Ready())
	role, extra := named(&rbacv1.ClusterRole{}, r.Name), named(&corev1.ConfigMap{}, "extra")
	for _, child := range []client.Object{role, extra} {
		if k.Get(child); !metav1.IsControlledBy(child, r) {
			t.Errorf("%T %s has owners %v", child, child.GetName(), child.GetOwnerReferences())
		}
	}
	if len(r.Finalizers) > 0 {
		t.Errorf("finalizers %v", r.Finalizers)
	}

	// Its children are repaired and pruned, and cause no requests when idle.
	c := named(&corev1.ConfigMap{}, "a")
	mustPatch(t, k, c, types.MergePatchType, `{"data":{"text":"changed by hand"}}`)
	k.Eventually(c, text("hello"))
	k.Delete(role)
	k.Eventually(role, testkit.Gone())
	k.Eventually(role, testkit.Exists())
	k.Eventually(r, testkit.Ready())
	sent(k, running)
	running.Stop()
	running = k.Run(op)
	if got := writes(sent(k, running)); len(got) > 0 {
		t.Errorf("writes after a restart: %v", got)
	}
	k.Update(r, func() { r.Spec.Extra = false })
	k.Eventually(extra, testkit.Gone())

	// A foreign object is not written, and the cluster-scoped object reports the conflict.
	foreign := named(&rbacv1.ClusterRole{}, k.Namespace+"-b")
	k.Apply(foreign)
	other := &site.Realm{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-b"}}
	k.Apply(other)
	k.Eventually(other, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ResourceConflict"))

	for _, o := range []client.Object{other, r} {
		k.Delete(o)
		k.Eventually(o, testkit.Gone())
	}
	k.Eventually(role, testkit.Gone())
	k.Eventually(c, testkit.Gone())
	k.Get(foreign)
	k.Delete(foreign)
}
