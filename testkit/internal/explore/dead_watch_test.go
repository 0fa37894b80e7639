package explore_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// A watch that is not opened again is found for each kind, although no step follows that changes an object of the kind. An
// operator that does not repair its children, or does not watch its inputs, is not accused of a dead watch.
func TestDeadWatch(t *testing.T) {
	t.Parallel()
	const after = `after step "create" and the `
	for name, c := range map[string]struct {
		operator watchingOperator
		plan     string // the part of the names of the plans to try
		deletes  bool   // the last step deletes the custom resource
		want     string // the message of the finding, or ""
		notes    []string
	}{
		"correct": {plan: "@create", deletes: true},
		"child": {
			operator: watchingOperator{dies: "ConfigMap"}, plan: "watch-expired@create", deletes: true,
			want: after + "deletion of configmaps/edge, the cluster is not",
		},
		"input": {
			operator: watchingOperator{dies: "Secret"}, plan: "watch-closed",
			want: after + "recreation of secrets/level, the operator does not react",
		},
		"resource": {
			operator: watchingOperator{dies: "Proxy"}, plan: "watch-broken",
			want: after + "recreation of proxies.mutants.homeostat.dev/edge, the cluster is not",
		},
		"slow": { // it is expected to repair a child, too
			operator: watchingOperator{dies: "ConfigMap", progresses: 60}, plan: "watch-expired@create",
			want: after + "deletion of configmaps/edge, the cluster is not",
		},
		"indifferent": {
			operator: watchingOperator{ignores: []string{"ConfigMap", "Secret"}}, plan: "watch-expired",
			notes: []string{"the deletion of configmaps/edge", "the recreation of secrets/level"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.operator.progresses > 0 && testing.Short() {
				t.Skip("it is slow")
			}
			o := deadWatchOptions(c.operator, c.deletes)
			o.SelectPlan = func(plan string) bool { return strings.Contains(plan, c.plan) }
			if c.want != "" {
				o.Timeout /= 10 // it is found by a timeout
			}
			if c.operator.progresses > 0 {
				o.Timeout = testkit.DefaultTimeout
				o.QuietPeriod = 0 // the default, much longer than the time between two reports of progress
			}
			r := run(t, o)
			tried := r.Runs[slices.IndexFunc(r.Runs, func(run report.Run) bool { return run.Fault != "none" }):]
			for _, run := range tried {
				want := report.Passed
				if c.want != "" {
					want = report.Failed
				}
				if run.Outcome != want {
					t.Errorf("%s is %s %s, want %s\n%s", run.Name, run.Outcome, run.UntriedReason, want, text(t, r))
				}
				for _, v := range run.Violations {
					if !strings.HasPrefix(v.Message, c.want) {
						t.Errorf("%s: %s, want %s", run.Name, v.Message, c.want)
					}
				}
				t.Logf("%s took %v", run.Name, run.Duration)
			}
			notes := strings.Join(r.Notes, "\n")
			for _, note := range c.notes {
				if !strings.Contains(notes, note) {
					t.Errorf("the notes are %q, want %q", notes, note)
				}
			}
			if len(c.notes) == 0 && strings.Contains(notes, "does not react") {
				t.Errorf("the notes are %q, want none about what the operator does not react to", notes)
			}
		})
	}
}

func deadWatchOptions(operator watchingOperator, deletes bool) explore.Options {
	proxy := &v1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
	o := explore.Options{
		Opener: kitadapter.Open, Name: "watching", Timeout: testkit.DefaultTimeout, Seed: 1, Faults: []string{"watch"},
		QuietPeriod: 300 * time.Millisecond,
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(operator.in(k.Namespace), append(opts, testkit.WithConfig(k.Config))...)
		}),
		Steps: []explore.Step{kitadapter.Step("create", func(k *testkit.K) {
			k.Apply(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "level"}, Data: map[string][]byte{"level": []byte("1")}})
			k.Apply(proxy.DeepCopy())
		})},
	}
	if deletes {
		o.Steps = append(o.Steps, kitadapter.Step("delete", func(k *testkit.K) { k.Delete(proxy.DeepCopy()) }))
	}
	return o
}

// watchingOperator copies Secret level into a ConfigMap for each Proxy. It has a watch of each kind, and no cache.
type watchingOperator struct {
	dies    string   // the kind whose watch is not opened again when it has ended
	ignores []string // the kinds whose events are ignored
	// progresses is the number of reports of progress before a ConfigMap is created, one each 100 ms.
	progresses int

	client.WithWatch
	namespace string
}

// in returns a setup function for an operator of one namespace.
func (o watchingOperator) in(namespace string) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		var err error
		o.namespace = namespace
		o.WithWatch, err = client.NewWithWatch(mgr.GetConfig(), client.Options{
			HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		})
		if err != nil {
			return err
		}
		return mgr.Add(manager.RunnableFunc(o.run))
	}
}

func (o watchingOperator) run(ctx context.Context) error {
	events := make(chan struct{}, 1)
	notify := func() {
		select {
		case events <- struct{}{}:
		default: // one is pending
		}
	}
	go o.watch(ctx, "Proxy", func() client.ObjectList { return &v1.ProxyList{} }, notify)
	go o.watch(ctx, "ConfigMap", func() client.ObjectList { return &corev1.ConfigMapList{} }, notify)
	go o.watch(ctx, "Secret", func() client.ObjectList { return &corev1.SecretList{} }, notify)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-events:
		}
		if o.reconcile(ctx) != nil {
			notify()
			pause(ctx)
		}
	}
}

// watch notifies of each event of a kind.
func (o watchingOperator) watch(ctx context.Context, kind string, list func() client.ObjectList, notify func()) {
	for ; ctx.Err() == nil; pause(ctx) {
		l := list()
		if o.List(ctx, l, client.InNamespace(o.namespace)) != nil {
			continue
		}
		if !slices.Contains(o.ignores, kind) {
			notify()
		}
		w, err := o.Watch(ctx, list(), client.InNamespace(o.namespace), &client.ListOptions{
			Raw: &metav1.ListOptions{ResourceVersion: l.GetResourceVersion()},
		})
		if err != nil {
			continue
		}
		for e := range w.ResultChan() {
			if _, isObject := e.Object.(client.Object); isObject && !slices.Contains(o.ignores, kind) {
				notify()
			}
		}
		w.Stop()
		if kind == o.dies {
			return
		}
	}
}

func pause(ctx context.Context) {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
}

func (o watchingOperator) reconcile(ctx context.Context) error {
	var proxies v1.ProxyList
	if err := o.List(ctx, &proxies, client.InNamespace(o.namespace)); err != nil {
		return err
	}
	secret := &corev1.Secret{}
	err := o.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: "level"}, secret)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	var all []error
	for _, p := range proxies.Items {
		all = append(all, o.copyTo(ctx, &p, secret.Data["level"], err == nil))
	}
	return errors.Join(all...)
}

// copyTo updates the ConfigMap and the status of a Proxy.
func (o watchingOperator) copyTo(ctx context.Context, p *v1.Proxy, level []byte, exists bool) error {
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	ready := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: "NoSecret", ObservedGeneration: p.Generation,
	}
	if exists {
		ready.Status = metav1.ConditionTrue
		ready.Reason = "Copied"
		if err := o.progress(ctx, p, child); err != nil {
			return err
		}
		_, err := controllerutil.CreateOrUpdate(ctx, o, child, func() error {
			child.Data = map[string]string{"level": string(level)}
			return controllerutil.SetControllerReference(p, child, o.Scheme())
		})
		if err != nil {
			return err
		}
	} else if err := o.Delete(ctx, child); client.IgnoreNotFound(err) != nil {
		return err
	}
	before := slices.Clone(p.Status.Conditions)
	meta.SetStatusCondition(&p.Status.Conditions, ready)
	p.Status.ObservedGeneration = p.Generation
	if reflect.DeepEqual(before, p.Status.Conditions) {
		return nil
	}
	return o.Status().Update(ctx, p)
}

// progress reports progress in the status if the ConfigMap does not exist.
func (o watchingOperator) progress(ctx context.Context, p *v1.Proxy, child *corev1.ConfigMap) error {
	err := o.Get(ctx, client.ObjectKeyFromObject(child), child)
	if !apierrors.IsNotFound(err) {
		return err
	}
	for i := range o.progresses {
		meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
			Type: "Ready", Status: metav1.ConditionFalse, Reason: "Copying", Message: strings.Repeat(".", i),
			ObservedGeneration: p.Generation,
		})
		if err := o.Status().Update(ctx, p); err != nil {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
