package explore_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// copyTo returns an operator that copies each letter to these namespaces, "" being that of the letter.
func copyTo(namespaces ...string) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		c := mgr.GetClient()
		copyLetter := func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			var letter corev1.ConfigMap
			if err := c.Get(ctx, req.NamespacedName, &letter); err != nil || letter.Name != "letter" {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			for _, namespace := range namespaces {
				theCopy := &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "copy-of-" + req.Namespace},
				}
				if namespace == "" {
					theCopy.Namespace = req.Namespace
					if err := ctrl.SetControllerReference(&letter, theCopy, c.Scheme()); err != nil {
						return reconcile.Result{}, err
					}
				}
				if err := c.Create(ctx, theCopy); client.IgnoreAlreadyExists(err) != nil {
					return reconcile.Result{}, err
				}
			}
			return reconcile.Result{}, nil
		}
		return ctrl.NewControllerManagedBy(mgr).Named("copier").For(&corev1.ConfigMap{}).Complete(reconcile.Func(copyLetter))
	}
}

// A write outside of the namespace is one finding of the runs without a fault. The operator's other work is explored.
func TestOutside(t *testing.T) {
	t.Parallel()
	elsewhere := testkit.New(t).Namespace
	r := run(t, explore.Options{
		Opener: kitadapter.Open, Name: "copier", Faults: []string{"error-500", "crash-after"}, Seed: 1,
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(copyTo("", elsewhere), append(opts, testkit.WithConfig(k.Config))...)
		}),
		Steps: []explore.Step{kitadapter.Step("create", func(k *testkit.K) {
			k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "letter"}})
		})},
	})
	found := violationsOf(r)
	if !slices.Contains(found, "none/1: outside") || slices.ContainsFunc(found, func(f string) bool {
		return !strings.HasPrefix(f, "none/") || !strings.HasSuffix(f, ": outside")
	}) {
		t.Errorf("violations %v\n%s", found, text(t, r))
	}
	tried := slices.ContainsFunc(r.Runs, func(run report.Run) bool {
		return run.Name == "error-500/create-configmaps-copy-of-$NAMESPACE#1" && run.Outcome == report.Passed
	})
	if !tried {
		t.Errorf("the other work of the operator was not explored:\n%s", text(t, r))
	}
}
