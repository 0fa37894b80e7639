package testkit_test

import (
	"context"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
)

const testFinalizer = "testkit.homeostat.dev/test"

func newClusterRole(name string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{testFinalizer}}}
}

// releaseRole is an operator that removes the finalizer of one ClusterRole when it is deleted.
func releaseRole(name string, released *atomic.Int64) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		c := mgr.GetClient()
		return ctrl.NewControllerManagedBy(mgr).Named("roles").For(&rbacv1.ClusterRole{}).Complete(reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				role := &rbacv1.ClusterRole{}
				if err := c.Get(ctx, req.NamespacedName, role); err != nil || req.Name != name || role.DeletionTimestamp == nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				controllerutil.RemoveFinalizer(role, testFinalizer)
				err := c.Update(context.WithoutCancel(ctx), role) // the cleanup may see its effect before the response arrives here
				if err == nil {
					released.Add(1)
				}
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}))
	}
}

// The cluster-wide objects of a test are deleted before its operators stop, so that these remove their finalizers.
func TestCleanUpBeforeOperatorsStop(t *testing.T) {
	t.Parallel()
	outer := testkit.New(t)
	var released atomic.Int64
	role := newClusterRole(outer.Namespace)
	t.Run("test", func(t *testing.T) {
		k := testkit.New(t)
		k.Start(releaseRole(role.Name, &released), testkit.ClusterWide(), testkit.WithConfig(k.Config))
		k.Apply(role)
	})
	if released.Load() != 1 {
		t.Errorf("the operator has removed %d finalizers, want 1", released.Load())
	}
	outer.Eventually(role, testkit.Gone())
}

// Finalizers that no operator removes do not keep the objects in the control plane.
func TestCleanUpWithoutOperator(t *testing.T) {
	t.Parallel()
	outer := testkit.New(t)
	role := newClusterRole(outer.Namespace)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: outer.Namespace + "-other"}}
	content := newConfigMap("held")
	t.Run("test", func(t *testing.T) {
		k := testkit.New(t)
		k.Apply(role)
		k.Apply(namespace)
		content.Namespace = namespace.Name
		content.Finalizers = []string{testFinalizer}
		k.Apply(content)
	})
	outer.Eventually(role, testkit.Gone())
	outer.Eventually(content, testkit.Gone())
	outer.Eventually(namespace, testkit.Gone())
}

func TestRefusedUpdate(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	cm := newConfigMap("a")
	cm.Immutable = new(true)
	k.Apply(cm)
	change := func() { cm.Data = map[string]string{"key": "changed"} }
	contains(t, k.RefusedUpdate(cm, change), "field is immutable")
	if len(cm.Data) > 0 {
		t.Errorf("afterwards the object has the content %v, want that of the server", cm.Data)
	}
	contains(t, failing(t, func(fake testing.TB) {
		testkit.New(fake).RefusedUpdate(cm, func() { cm.Labels = map[string]string{"a": "b"} })
	}), "updating *v1.ConfigMap a: accepted, but it should have been refused")
}
