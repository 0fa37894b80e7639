package gen

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// slowly copies the settings of a Proxy. Its first reconcile of each takes longer than an idle operator is observed, as that
// of an operator that starts a process or waits for an external system.
func slowly(mgr manager.Manager) error {
	const startup = 2 * time.Second
	var mu sync.Mutex
	started := map[types.UID]bool{}
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{}).Owns(&corev1.ConfigMap{}).Complete(reconcile.Func(
		func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			p := &v1.Proxy{}
			if err := c.Get(ctx, req.NamespacedName, p); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			mu.Lock()
			first := !started[p.UID]
			started[p.UID] = true
			mu.Unlock()
			if first {
				select {
				case <-time.After(startup):
				case <-ctx.Done():
					return reconcile.Result{}, ctx.Err()
				}
			}
			copied := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
			_, err := controllerutil.CreateOrUpdate(ctx, c, copied, func() error {
				copied.Data = p.Spec.Settings
				return controllerutil.SetControllerReference(p, copied, c.Scheme())
			})
			if err != nil || p.Status.ObservedGeneration == p.Generation {
				return reconcile.Result{}, err
			}
			p.Status.ObservedGeneration = p.Generation
			return reconcile.Result{}, client.IgnoreNotFound(c.Status().Update(ctx, p))
		}))
}

// An operator is not idle while it reconciles, although it sends no request: a step ends after the reconcile.
func TestSlowReconcile(t *testing.T) {
	t.Parallel()
	Explore(t, setup(slowly), source("proxies"), Seed(1), Sequences(1), Steps(2),
		ServiceAccount(mutantNamed(t, "path-dependence/correct").ServiceAccount),
		Check("copied settings", func(k *testkit.K) string {
			var proxies v1.ProxyList
			var copies corev1.ConfigMapList
			in := client.InNamespace(k.Namespace)
			if err := errors.Join(k.Client.List(k.Context(), &proxies, in), k.Client.List(k.Context(), &copies, in)); err != nil {
				return err.Error()
			}
			copies.Items = slices.DeleteFunc(copies.Items, func(c corev1.ConfigMap) bool { return metav1.GetControllerOf(&c) == nil })
			if len(proxies.Items) > len(copies.Items) {
				return "the settings are not copied"
			}
			return ""
		}))
}
