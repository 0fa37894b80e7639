package explore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// The operator leaves its copy, but deletes it if the copied object is deleted: the scenario's custom resource has to be
// gone before its other objects are deleted. The finding does not end the exploration.
func TestResidueOfAnInput(t *testing.T) {
	t.Parallel()
	input := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "input"}, Data: map[string]string{"a": "b"}}
	o := explore.Options{
		Opener: kitadapter.Open, Name: "copier", Timeout: 3 * time.Second, Seed: 1, Faults: []string{"error-503"},
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(setupCopier, append(opts, testkit.WithConfig(k.Config))...)
		}),
		Steps: []explore.Step{kitadapter.Step("create", func(k *testkit.K) {
			k.Apply(input.DeepCopy())
			k.Apply(&v1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "edge"}})
		})},
	}
	r := run(t, o)
	found := r.Findings()
	want := "ConfigMap copy is left after the custom resources were deleted"
	if len(found) != 1 || found[0].Message != want || found[0].Runs[0] != "none/1" {
		t.Errorf("findings %v, want %q in the runs without a fault\n%s", found, want, text(t, r))
	}
	if len(r.Runs) <= 3 || !strings.Contains(strings.Join(r.Notes, "\n"), "violates without a fault (1)") {
		t.Errorf("%d runs and the notes %q, want further runs, and a note about the finding", len(r.Runs), r.Notes)
	}
}

// setupCopier registers an operator that copies a ConfigMap.
func setupCopier(mgr manager.Manager) error {
	c := mgr.GetClient()
	const finalizer = "example.com/copier"
	reconciler := reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		proxy, input := &v1.Proxy{}, &corev1.ConfigMap{}
		if err := c.Get(ctx, req.NamespacedName, proxy); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if !proxy.DeletionTimestamp.IsZero() {
			controllerutil.RemoveFinalizer(proxy, finalizer) // the bug: the copy is left
			return reconcile.Result{}, client.IgnoreNotFound(c.Update(ctx, proxy))
		}
		if controllerutil.AddFinalizer(proxy, finalizer) {
			return reconcile.Result{}, c.Update(ctx, proxy)
		}
		theCopy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: "copy"}}
		if c.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: "input"}, input) != nil {
			return reconcile.Result{}, client.IgnoreNotFound(c.Delete(ctx, theCopy))
		}
		_, err := controllerutil.CreateOrUpdate(ctx, c, theCopy, func() error {
			theCopy.Data = input.Data
			return nil
		})
		return reconcile.Result{}, err
	})
	toProxy := func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: "edge"}}}
	}
	return ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(toProxy)).
		Complete(reconciler)
}
