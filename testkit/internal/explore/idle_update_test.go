package explore_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// An operator that updates an object in each reconcile, although nothing is to be changed, causes no event and so no loop. A
// restart shows it. An apply is an idiom of operators that do not compare.
func TestUpdatesThatChangeNothing(t *testing.T) {
	t.Parallel()
	for write, want := range map[string][]string{
		"always": {"none/1: writes-after-restart"}, "if it differs": nil, "apply": nil,
	} {
		t.Run(write, func(t *testing.T) {
			t.Parallel()
			r := run(t, explore.Options{
				Opener: kitadapter.Open, Name: "updates", Timeout: testkit.DefaultTimeout, Seed: 1,
				Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
					return k.Start(setupUpdates(write), append(opts, testkit.WithConfig(k.Config))...)
				}),
				Steps: []explore.Step{kitadapter.Step("create", func(k *testkit.K) {
					k.Apply(&v1.Proxy{
						ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1.ProxySpec{Settings: map[string]string{"level": "1"}},
					})
				})},
				SelectPlan: func(string) bool { return false },
			})
			if got := violationsOf(r); !slices.Equal(got, want) {
				t.Errorf("violations %v, want %v\n%s", got, want, text(t, r))
			}
		})
	}
}

func setupUpdates(write string) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		c := mgr.GetClient()
		return ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{}).Owns(&corev1.ConfigMap{}).Complete(
			reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				proxy := &v1.Proxy{}
				if err := c.Get(ctx, req.NamespacedName, proxy); err != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				return reconcile.Result{}, writeConfigMap(ctx, c, write, proxy)
			}))
	}
}

func writeConfigMap(ctx context.Context, c client.Client, write string, proxy *v1.Proxy) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: proxy.Namespace, Name: proxy.Name}}
	change := func() error {
		cm.Data = proxy.Spec.Settings
		return controllerutil.SetControllerReference(proxy, cm, c.Scheme())
	}
	if write == "if it differs" {
		_, err := controllerutil.CreateOrUpdate(ctx, c, cm, change)
		return err
	}
	err := c.Get(ctx, client.ObjectKeyFromObject(cm), cm)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if change() != nil {
		return change()
	}
	switch {
	case write == "apply":
		cm.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
		cm.ManagedFields = nil
		cm.ResourceVersion = ""
		return c.Patch(ctx, cm, client.Apply, client.FieldOwner("updates"), client.ForceOwnership) //nolint:staticcheck // short
	case err != nil:
		return c.Create(ctx, cm)
	default:
		return c.Update(ctx, cm)
	}
}
