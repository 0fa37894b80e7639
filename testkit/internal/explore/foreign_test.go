package explore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator whose child's name belongs to another owner.
const (
	overwritesForeign = "overwrites"
	deletesForeign    = "deletes"
	readyWithForeign  = "ready"
)

// silentWithForeign is no bug: the operator returns an error and writes nothing.
const silentWithForeign = "silent"

// Each bug is found by a plan, and the operator without it passes all plans. The second scenario waits in a step for what
// cannot come.
func TestForeign(t *testing.T) {
	t.Parallel()
	const (
		created = "foreign-created/configmaps/edge"
		edited  = "foreign-edited/configmaps/edge"
		deleted = "foreign-deleted/configmaps/edge"
	)
	for bug, want := range map[string][]string{
		"":                {},
		silentWithForeign: {},
		overwritesForeign: {created + ": foreign", edited + ": foreign"},
		deletesForeign:    {created + ": foreign", deleted + ": foreign", edited + ": foreign"},
		readyWithForeign:  {created + ": status", edited + ": status"},
	} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/waits=%t", bug, waits), func(t *testing.T) {
				t.Parallel()
				o := foreignOptions(bug, waits)
				r := run(t, o)
				got := violationsOf(r)
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("violations %v, want %v\n%s", got, want, text(t, r))
				}
				for _, run := range r.Runs {
					if run.Outcome == report.Untried {
						t.Errorf("%s was not tried: %s", run.Name, run.UntriedReason)
					}
					t.Logf("%s took %v", run.Name, run.Duration)
				}
				if plans := len(r.Runs) - 3; plans != 3 {
					t.Errorf("%d plans, want 3", plans)
				}
			})
		}
	}
}

func foreignOptions(bug string, waits bool) explore.Options {
	step := func(name, level string) explore.Step {
		return kitadapter.Step(name, func(k *testkit.K) {
			proxy := &v1.Proxy{
				ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1.ProxySpec{Settings: map[string]string{"level": level}},
			}
			k.Apply(proxy)
			if waits {
				k.Eventually(proxy, testkit.Ready())
			}
		})
	}
	timeout := testkit.DefaultTimeout
	if bug == readyWithForeign {
		timeout /= 10 // it is found by a timeout
	}
	return explore.Options{
		Opener: kitadapter.Open, Name: "foreign", Timeout: timeout, Seed: 1, Faults: []string{"foreign"},
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(setupForeign(bug), append(opts, testkit.WithConfig(k.Config))...)
		}),
		Steps: []explore.Step{step("create", "1"), step("change", "2")},
	}
}

func setupForeign(bug string) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		r := &foreignOperator{mgr.GetClient(), bug}
		return ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{}).Owns(&corev1.ConfigMap{}).Complete(r)
	}
}

// foreignOperator maintains a ConfigMap with the name of its custom resource.
type foreignOperator struct {
	client.Client

	bug string
}

const foreignFinalizer = "foreign.homeostat.dev/cleanup"

func (o *foreignOperator) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	proxy := &v1.Proxy{}
	if err := o.Get(ctx, req.NamespacedName, proxy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !proxy.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, o.finalize(ctx, proxy)
	}
	if o.bug == deletesForeign && controllerutil.AddFinalizer(proxy, foreignFinalizer) {
		return reconcile.Result{}, o.Update(ctx, proxy)
	}
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Applied"}
	if err := o.apply(ctx, proxy); err != nil && (!apierrors.IsAlreadyExists(err) || o.bug == silentWithForeign) {
		return reconcile.Result{}, err
	} else if err != nil && o.bug != readyWithForeign {
		ready.Status = metav1.ConditionFalse
		ready.Reason = "AlreadyExists"
	}
	ready.ObservedGeneration = proxy.Generation
	changed := meta.SetStatusCondition(&proxy.Status.Conditions, ready)
	if proxy.Status.ObservedGeneration == proxy.Generation && !changed {
		return reconcile.Result{}, nil
	}
	proxy.Status.ObservedGeneration = proxy.Generation
	return reconcile.Result{}, o.Status().Update(ctx, proxy)
}

// apply returns an error of type AlreadyExists if the child belongs to another owner.
func (o *foreignOperator) apply(ctx context.Context, proxy *v1.Proxy) error {
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: proxy.Namespace, Name: proxy.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, o, child, func() error {
		if child.ResourceVersion != "" && !metav1.IsControlledBy(child, proxy) && o.bug != overwritesForeign {
			return apierrors.NewAlreadyExists(corev1.Resource("configmaps"), child.Name)
		}
		child.Data = proxy.Spec.Settings
		return controllerutil.SetControllerReference(proxy, child, o.Scheme())
	})
	return err
}

func (o *foreignOperator) finalize(ctx context.Context, proxy *v1.Proxy) error {
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: proxy.Namespace, Name: proxy.Name}}
	if err := o.Delete(ctx, child); client.IgnoreNotFound(err) != nil {
		return err
	}
	controllerutil.RemoveFinalizer(proxy, foreignFinalizer)
	return o.Update(ctx, proxy)
}
