package explore_test

import (
	"context"
	"errors"
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

// Bugs of an operator that loses something, or keeps it for too long.
const (
	needsSibling = "needs-sibling" // a lost child is copied from the other one
	keepsMemory  = "keeps-memory"  // a spec of the same name and generation is applied once
	keepsOwner   = "keeps-owner"   // a record says that a custom resource of the name was applied, also an earlier one
	keepsEnd     = "keeps-end"     // a custom resource of the name of a deleted one is ignored
	ignoresPods  = "ignores-pods"  // a failed pod is no reason not to be Ready
)

// Each bug is found by one of the faults, and the operator without it passes all.
func TestRecreated(t *testing.T) {
	t.Parallel()
	const input = "proxies.mutants.homeostat.dev/edge"
	for bug, want := range map[string][]string{
		"":           {},
		needsSibling: {"drift-all@label: end-state"},
		keepsMemory:  {"drift-all@label: end-state", "recreated/" + input + ": end-state"},
		keepsOwner:   {"recreated-down/" + input + ": end-state"},
		keepsEnd:     {"recreated-later/" + input + ": end-state"},
		ignoresPods:  {"pod-failed/pods/edge: status"},
	} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			o := recreatedOptions(bug)
			r := run(t, o)
			got := violationsOf(r)
			for _, finding := range want {
				if !slices.Contains(got, finding) {
					t.Errorf("violations %v, want %s\n%s", got, finding, text(t, r))
				}
			}
			if len(want) == 0 && len(got) > 0 {
				t.Errorf("violations %v of a correct operator\n%s", got, text(t, r))
			}
			for _, run := range r.Runs {
				if run.Outcome == report.Untried {
					t.Errorf("%s was not tried: %s", run.Name, run.UntriedReason)
				}
				t.Logf("%s took %v", run.Name, run.Duration)
			}
			if plans := len(r.Runs) - 3; plans != 5 {
				t.Errorf("%d plans, want 5", plans)
			}
		})
	}
}

func recreatedOptions(bug string) explore.Options {
	timeout := testkit.DefaultTimeout
	if bug != "" {
		timeout /= 10 // it is found by a timeout
	}
	return explore.Options{
		Opener: kitadapter.Open, Name: "recreated", Timeout: timeout, Seed: 1,
		Faults: []string{"drift-all", "pod-failed", "recreated"},
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(setupRecreated(bug), append(opts, testkit.WithConfig(k.Config))...)
		}),
		Steps: []explore.Step{
			kitadapter.Step("create", func(k *testkit.K) {
				k.Apply(&v1.Proxy{
					ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1.ProxySpec{Settings: map[string]string{"level": "1"}},
				})
			}),
			kitadapter.Step("label", func(k *testkit.K) { // the generation stays 1
				proxy := &v1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
				k.Update(proxy, func() { proxy.Labels = map[string]string{"team": "a"} })
			}),
		},
	}
}

func setupRecreated(bug string) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		r := &recreatedOperator{mgr.GetClient(), mgr.GetAPIReader(), bug, map[string]int64{}}
		return ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{}).Owns(&corev1.ConfigMap{}).Owns(&corev1.Pod{}).Complete(r)
	}
}

// ended is the generation that stands for a deleted custom resource.
const ended = -1

// recreatedOperator maintains two ConfigMaps and a Pod.
type recreatedOperator struct {
	client.Client

	live    client.Reader
	bug     string
	applied map[string]int64 // the last generation by name; used by one worker
}

func (o *recreatedOperator) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	proxy := &v1.Proxy{}
	if err := o.Get(ctx, req.NamespacedName, proxy); apierrors.IsNotFound(err) && o.bug == keepsOwner {
		return reconcile.Result{}, o.deleteChildren(ctx, req)
	} else if apierrors.IsNotFound(err) && o.bug == keepsEnd {
		o.applied[req.Name] = ended
		return reconcile.Result{}, nil
	} else if err != nil || !proxy.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if o.bug == keepsEnd && o.applied[req.Name] == ended {
		return reconcile.Result{}, nil
	}
	if o.bug == keepsMemory && o.applied[req.Name] == proxy.Generation {
		return reconcile.Result{}, nil
	}
	err := errors.Join(o.config(ctx, proxy, "-a", "-b"), o.config(ctx, proxy, "-b", "-a"), o.pod(ctx, proxy))
	if err != nil {
		return reconcile.Result{}, err
	}
	ready := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Applied", ObservedGeneration: proxy.Generation,
	}
	changed := meta.SetStatusCondition(&proxy.Status.Conditions, ready)
	if changed || proxy.Status.ObservedGeneration != proxy.Generation {
		proxy.Status.ObservedGeneration = proxy.Generation
		err = o.Status().Update(ctx, proxy)
	}
	if err == nil {
		o.applied[req.Name] = proxy.Generation
	}
	return reconcile.Result{}, err
}

// config maintains a ConfigMap. sibling is the suffix of the other one.
func (o *recreatedOperator) config(ctx context.Context, proxy *v1.Proxy, suffix, sibling string) error {
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: proxy.Namespace, Name: proxy.Name + suffix}}
	data := map[string]string{"level": proxy.Spec.Settings["level"]}
	if o.bug == needsSibling && proxy.Status.ObservedGeneration == proxy.Generation {
		other := &corev1.ConfigMap{}
		if err := o.live.Get(ctx, client.ObjectKey{Namespace: proxy.Namespace, Name: proxy.Name + sibling}, other); err != nil {
			return client.IgnoreNotFound(err)
		}
		data = other.Data
	}
	if o.bug == keepsOwner && suffix == "-a" {
		record := client.ObjectKey{Namespace: proxy.Namespace, Name: proxy.Name + sibling}
		if err := o.live.Get(ctx, record, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
			return err
		}
	}
	_, err := controllerutil.CreateOrUpdate(ctx, o, child, func() error {
		child.Data = data
		if o.bug == keepsOwner && suffix == "-b" { // the record
			return nil
		}
		return controllerutil.SetControllerReference(proxy, child, o.Scheme())
	})
	return err
}

// pod maintains a Pod and replaces it when it has failed.
func (o *recreatedOperator) pod(ctx context.Context, proxy *v1.Proxy) error {
	child := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: proxy.Namespace, Name: proxy.Name}}
	err := o.Get(ctx, client.ObjectKeyFromObject(child), child)
	if err == nil && child.Status.Phase == corev1.PodFailed && o.bug != ignoresPods {
		return client.IgnoreNotFound(o.Delete(ctx, child, client.GracePeriodSeconds(0)))
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	child.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "proxy:1"}}
	child.Spec.AutomountServiceAccountToken = new(false)
	if err := controllerutil.SetControllerReference(proxy, child, o.Scheme()); err != nil {
		return err
	}
	return o.Create(ctx, child)
}

func (o *recreatedOperator) deleteChildren(ctx context.Context, req reconcile.Request) error {
	for _, suffix := range []string{"-a", "-b"} {
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name + suffix}}
		if err := client.IgnoreNotFound(o.Delete(ctx, child)); err != nil {
			return err
		}
	}
	return nil
}
