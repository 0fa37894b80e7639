package e2e

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

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

// Plans, conditions and events distinguish two children of one name by their namespaces.
func TestNamesOfChildrenOfClusterScopedObject(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.WithoutOracles("the test has a child rejected", "forbidden"))
	op := &sdk.Operator[*site.Realm]{
		Name: operatorName, AddToScheme: site.AddToScheme, Resync: -1,
		Owns: []client.Object{&corev1.ConfigMap{}, &rbacv1.ClusterRole{}},
		Reconcile: func(_ context.Context, p *sdk.Pass[*site.Realm]) error {
			sdk.Apply(p, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: p.Object.Name}})
			for _, namespace := range []string{p.Object.Name, p.Object.Spec.Text} {
				sdk.Apply(p, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "same"}})
			}
			return nil
		},
	}
	r := &site.Realm{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace}, Spec: site.Spec{Text: "far"}}
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "old", Name: "same"}}
	var actions []string
	for _, a := range sdk.Dry(t.Context(), op, r, old).Actions {
		actions = append(actions, a.String())
	}
	want := []string{
		"create ClusterRole " + r.Name, "create ConfigMap " + r.Name + "/same", "create ConfigMap far/same",
		"delete ConfigMap old/same",
	}
	if !slices.Equal(actions, want) {
		t.Errorf("the actions are %q, want %q", actions, want)
	}

	far := testkit.New(t)
	r.Spec.Text = far.Namespace
	r.Annotations = map[string]string{sdk.DryRunAnnotation: "true"}
	k.Start(func(mgr manager.Manager) error {
		return op.SetupWithManager(mgr, sdk.InNamespaces(k.Namespace, far.Namespace))
	}, failuresOf(forbidden, func(req *http.Request) bool {
		return isApply(req, "configmaps") && strings.Contains(req.URL.Path, far.Namespace)
	}).config(k))
	k.Apply(r)
	planned := "would create ClusterRole " + r.Name + "; create ConfigMap " + r.Name + "/same; create ConfigMap " +
		far.Namespace + "/same"
	k.Eventually(r, testkit.Match("a plan", func(r *site.Realm) bool {
		c := conditions.Get(r, "DryRun")
		return c != nil && c.Message == planned
	}))
	k.Update(r, func() { r.Annotations = nil })
	refused := "ConfigMap " + far.Namespace + "/same is refused: the answer is no"
	k.Eventually(r, testkit.Match("a refusal", func(r *site.Realm) bool {
		c := conditions.Get(r, conditions.Stalled)
		return c != nil && conditions.Get(r, conditions.Ready).Message == refused
	}))
	k.Wait("the event has the name", func(ctx context.Context) error {
		events := &eventsv1.EventList{}
		if err := k.Client.List(ctx, events); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Regarding.Name == r.Name && e.Note == refused {
				return nil
			}
		}
		return errors.New("it does not")
	})
	k.Delete(r)
	k.Eventually(r, testkit.Gone())
}
