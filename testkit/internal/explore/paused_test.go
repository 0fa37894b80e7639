package explore_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// The late writes of a leader that was paused spoil what the other replica has made of a newer custom resource. An operator
// that reconciles only new generations does not repair it.
func TestPausedLeader(t *testing.T) {
	t.Parallel()
	plans := []string{
		"failover-paused/create-configmaps-edge-2", "failover-paused/delete-configmaps-edge-1",
		"failover-paused/patch-configmaps-edge", "failover-paused/patch-proxies.status-edge",
	}
	for name, setup := range map[string]testkit.SetupFunc{"correct": setupPaused, "new generations": setupPausedGenerations} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := pausedOptions(setup)
			want := report.Passed
			if name != "correct" {
				want = report.Failed
				o.Timeout = 8 * time.Second // each is found by a timeout, and a takeover takes 3 s
			}
			r := run(t, o)
			var got []string
			for _, run := range r.Runs[3:] {
				plan, _, _ := strings.Cut(run.Name, "#") // a cache may make the operator repeat a write
				got = append(got, plan)
				if run.Outcome != want || want == report.Failed && run.Violations[0].Oracle != "end-state" {
					t.Errorf("%s %s, want %s: %s\n%s", run.Name, run.Outcome, want, run.UntriedReason, text(t, r))
				}
				t.Logf("%s took %v", run.Name, run.Duration)
			}
			slices.Sort(got)
			if diff := cmp.Diff(plans, got); diff != "" {
				t.Errorf("plans (-want +got):\n%s", diff)
			}
		})
	}
}

func pausedOptions(setup testkit.SetupFunc) explore.Options {
	step := func(name, level string) explore.Step {
		return kitadapter.Step(name, func(k *testkit.K) {
			k.Apply(&v1.Proxy{
				ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1.ProxySpec{Settings: map[string]string{"level": level}},
			})
		})
	}
	return explore.Options{
		Opener: kitadapter.Open, Name: "paused", Timeout: testkit.DefaultTimeout, Seed: 1, Parallel: 4,
		Faults: []string{"failover-paused"},
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(setup, append(opts, testkit.WithConfig(k.Config))...)
		}),
		Steps: []explore.Step{step("create", "1"), step("change", "2"), step("change again", "3")},
	}
}

func setupPaused(mgr manager.Manager) error {
	r := &pausedOperator{mgr.GetClient()}
	return ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{}).Owns(&corev1.ConfigMap{}).Complete(r)
}

func setupPausedGenerations(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(&pausedOperator{mgr.GetClient()})
}

// pausedOperator maintains a ConfigMap, and another one whose name ends with the level. Its writes are unconditional.
type pausedOperator struct{ client.Client }

func (o *pausedOperator) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	proxy := &v1.Proxy{}
	if err := o.Get(ctx, req.NamespacedName, proxy); err != nil || !proxy.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if err := errors.Join(o.patchChild(ctx, proxy), o.createChild(ctx, proxy), o.deleteFormer(ctx, proxy)); err != nil {
		return reconcile.Result{}, err
	}
	if proxy.Status.ObservedGeneration == proxy.Generation {
		return reconcile.Result{}, nil
	}
	before := proxy.DeepCopy()
	proxy.Status.ObservedGeneration = proxy.Generation
	return reconcile.Result{}, o.Status().Patch(ctx, proxy, client.MergeFrom(before))
}

func (o *pausedOperator) child(proxy *v1.Proxy, name string) *corev1.ConfigMap {
	child := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: proxy.Namespace, Name: name},
		Data:       map[string]string{"level": proxy.Spec.Settings["level"]},
	}
	if err := controllerutil.SetControllerReference(proxy, child, o.Scheme()); err != nil {
		panic(err) // cannot happen: the kind is registered
	}
	return child
}

// patchChild maintains a ConfigMap with the content of the custom resource.
func (o *pausedOperator) patchChild(ctx context.Context, proxy *v1.Proxy) error {
	child, now := o.child(proxy, proxy.Name), &corev1.ConfigMap{}
	switch err := o.Get(ctx, client.ObjectKeyFromObject(child), now); {
	case apierrors.IsNotFound(err):
		return ignoreAlreadyExists(o.Create(ctx, child))
	case err != nil || maps.Equal(now.Data, child.Data):
		return err
	}
	was := now.DeepCopy()
	now.Data = child.Data
	return o.Patch(ctx, now, client.MergeFrom(was))
}

// createChild creates the ConfigMap that has the level in its name.
func (o *pausedOperator) createChild(ctx context.Context, proxy *v1.Proxy) error {
	child := o.child(proxy, proxy.Name+"-"+proxy.Spec.Settings["level"])
	err := o.Get(ctx, client.ObjectKeyFromObject(child), &corev1.ConfigMap{})
	if apierrors.IsNotFound(err) {
		err = ignoreAlreadyExists(o.Create(ctx, child))
	}
	return err
}

// deleteFormer deletes the ConfigMaps with other levels.
func (o *pausedOperator) deleteFormer(ctx context.Context, proxy *v1.Proxy) error {
	var all corev1.ConfigMapList
	if err := o.List(ctx, &all, client.InNamespace(proxy.Namespace)); err != nil {
		return err
	}
	for _, child := range all.Items {
		former := child.Name != proxy.Name && child.Name != proxy.Name+"-"+proxy.Spec.Settings["level"]
		if former && metav1.IsControlledBy(&child, proxy) {
			if err := client.IgnoreNotFound(o.Delete(ctx, &child)); err != nil {
				return err
			}
		}
	}
	return nil
}

func ignoreAlreadyExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
