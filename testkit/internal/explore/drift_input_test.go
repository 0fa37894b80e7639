package explore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// An operator that annotates an object of the user once for each generation need not restore the annotation.
func TestFieldThatIsAddedOnce(t *testing.T) {
	t.Parallel()
	r := run(t, explore.Options{
		Opener: kitadapter.Open, Name: "marker", Timeout: testkit.DefaultTimeout, Seed: 1, Faults: []string{"drift-input"},
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(setupMarker, append(opts, testkit.WithConfig(k.Config))...)
		}),
		Steps: []explore.Step{kitadapter.Step("create", func(k *testkit.K) {
			k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "page"}})
			k.Apply(&v1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "page"}})
		})},
	})
	if got := violationsOf(r); len(got) > 0 {
		t.Errorf("violations %v of a correct operator\n%s", got, text(t, r))
	}
	outcomes := map[string]report.Outcome{}
	for _, run := range r.Runs[3:] {
		outcomes[run.Name] = run.Outcome
	}
	want := map[string]report.Outcome{"drift-input/configmaps/page": report.Untried}
	if diff := cmp.Diff(want, outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// Labels of a child that are removed must be restored, unless the operator does not restore them after a start either.
func TestMetadataIsRemoved(t *testing.T) {
	t.Parallel()
	const plan = "drift-metadata/deployments.apps/web"
	generations := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	for name, test := range map[string]struct {
		opts []builder.OwnsOption
		once bool // the operator creates the Deployment and never changes it
		want report.Outcome
	}{
		"correct":     {nil, false, report.Passed},
		"generations": {[]builder.OwnsOption{generations}, false, report.Failed},
		"once":        {nil, true, report.Untried},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, explore.Options{
				Opener: kitadapter.Open, Name: "labeller", Timeout: 5 * time.Second, Seed: 1, Faults: []string{"drift-metadata"},
				Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
					return k.Start(setupLabeller(test.once, test.opts...), append(opts, testkit.WithConfig(k.Config))...)
				}),
				Steps: []explore.Step{kitadapter.Step("create", func(k *testkit.K) {
					k.Apply(&v1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "web"}})
				})},
			})
			outcomes := map[string]report.Outcome{}
			for _, run := range r.Runs[3:] {
				outcomes[run.Name] = run.Outcome
			}
			if diff := cmp.Diff(map[string]report.Outcome{plan: test.want}, outcomes); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s\n%s", diff, text(t, r))
			}
			if got := violationsOf(r); test.want == report.Failed && !slices.Equal(got, []string{plan + ": end-state"}) {
				t.Errorf("violations %v, want the end state alone", got)
			}
		})
	}
}

// setupLabeller registers an operator that maintains a Deployment with a label for each Proxy.
func setupLabeller(once bool, opts ...builder.OwnsOption) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		c := mgr.GetClient()
		return ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{}).Owns(&appsv1.Deployment{}, opts...).
			Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				proxy := &v1.Proxy{}
				if err := c.Get(ctx, req.NamespacedName, proxy); err != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
				_, err := controllerutil.CreateOrUpdate(ctx, c, d, func() error {
					if d.UID != "" && once {
						return nil
					}
					labels := map[string]string{"app": req.Name}
					metav1.SetMetaDataLabel(&d.ObjectMeta, "app", req.Name)
					if d.UID == "" {
						d.Spec.Replicas = new(int32(0))
						d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
						d.Spec.Template.Labels = labels
						d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
					}
					return controllerutil.SetControllerReference(proxy, d, c.Scheme())
				})
				return reconcile.Result{}, err
			}))
	}
}

// setupMarker registers an operator that annotates the ConfigMap of the name of each new Proxy.
func setupMarker(mgr manager.Manager) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{}).
		Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			proxy, page := &v1.Proxy{}, &corev1.ConfigMap{}
			if err := c.Get(ctx, req.NamespacedName, proxy); err != nil || proxy.Status.ObservedGeneration == proxy.Generation {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			if err := mgr.GetAPIReader().Get(ctx, req.NamespacedName, page); err != nil {
				return reconcile.Result{}, err
			}
			metav1.SetMetaDataAnnotation(&page.ObjectMeta, "proxy", "seen")
			if err := c.Update(ctx, page); err != nil {
				return reconcile.Result{}, err
			}
			proxy.Status.ObservedGeneration = proxy.Generation
			return reconcile.Result{}, c.Status().Update(ctx, proxy)
		}))
}
