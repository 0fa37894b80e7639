package explore_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// A correct operator may record when and for which objects it works, in values, keys and names. No such difference between
// two runs is a violation.
func TestRecordingOperator(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]func(p *v1.Proxy, now time.Time) map[string]string{
		"times": func(_ *v1.Proxy, now time.Time) map[string]string {
			return map[string]string{
				"seconds": strconv.FormatInt(now.Unix(), 10), "milliseconds": strconv.FormatInt(now.UnixMilli(), 10),
				"text": "applied at " + now.String(), "date": now.Format(time.RFC1123),
			}
		},
		"keys": func(p *v1.Proxy, now time.Time) map[string]string {
			return map[string]string{
				"from." + p.Namespace: "a", "of." + string(p.UID): "b", "at." + strconv.FormatInt(now.Unix(), 10): "c",
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := recordingOptions(record)
			o.Faults = []string{"crash-after", "drift-deleted"}
			r := run(t, o)
			if got := violationsOf(r); len(got) > 0 {
				t.Errorf("violations %v of a correct operator\n%s", got, text(t, r))
			}
			if len(r.Notes) > 0 {
				t.Errorf("values are not compared: %v", r.Notes)
			}
			tried := 0
			for _, run := range r.Runs {
				if run.Outcome == report.Passed {
					tried++
				}
			}
			if tried < 7 {
				t.Errorf("%d runs, want three without a fault and four with one", tried)
			}
		})
	}
}

// Baseline runs are shifted against each other, so that values which depend on the time differ.
func TestShiftedBaselineRuns(t *testing.T) {
	t.Parallel()
	const second = time.Second // what values in seconds need
	var mu sync.Mutex
	var opened []time.Time
	gaps, first := map[string]time.Duration{}, map[string]time.Time{} // between two steps, by namespace
	o := recordingOptions(func(*v1.Proxy, time.Time) map[string]string { return nil })
	o.QuietPeriod = 100 * time.Millisecond
	o.SelectPlan = func(string) bool { return false }
	o.Opener = func(s *space.Space, transport func(http.RoundTripper) http.RoundTripper) error {
		mu.Lock()
		defer mu.Unlock()
		opened = append(opened, time.Now())
		return kitadapter.Open(s, transport)
	}
	for i, step := range o.Steps {
		o.Steps[i].Do = func(s *space.Space) error {
			mu.Lock()
			if i == 0 {
				first[s.Namespace] = time.Now()
			} else {
				gaps[s.Namespace] = time.Since(first[s.Namespace])
			}
			mu.Unlock()
			return step.Do(s)
		}
	}
	if got := violationsOf(run(t, o)); len(got) > 0 {
		t.Errorf("violations %v of a correct operator", got)
	}
	slices.SortFunc(opened, time.Time.Compare)
	if len(opened) < 3 || opened[len(opened)-1].Sub(opened[0]) <= second {
		t.Errorf("the runs began at %v, want one of them more than a second later", opened)
	}
	if longest := slices.Max(slices.Collect(maps.Values(gaps))); len(gaps) < 3 || longest <= second {
		t.Errorf("the times between the steps are %v, want one of more than a second", gaps)
	}
}

// What a step wrote on a child is gone when the child is deleted by hand. The operator need not restore it, but its own
// fields.
func TestStepFields(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{"": nil, "another level": {"drift-deleted/configmaps/edge: end-state"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			made := map[string]int{} // ConfigMaps by namespace and level
			o := recordingOptions(func(p *v1.Proxy, _ time.Time) map[string]string {
				mu.Lock()
				defer mu.Unlock()
				of := p.Namespace + p.Spec.Settings["level"]
				if made[of]++; made[of] > 1 && name != "" {
					return map[string]string{"level": name}
				}
				return nil
			})
			o.Steps = append(o.Steps, kitadapter.Step("annotate", func(k *testkit.K) {
				child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
				k.Update(child, func() {
					child.Annotations = map[string]string{"example.com/by": "a user"}
					child.Labels = map[string]string{"tier": "web"}
				})
			}))
			o.Faults = []string{"drift-deleted"}
			o.SelectPlan = func(plan string) bool { return plan == "drift-deleted/configmaps/edge" }
			if want != nil {
				o.Timeout = testkit.DefaultTimeout / 10 // the bug is found by a timeout
			}
			r := run(t, o)
			if diff := cmp.Diff(want, violationsOf(r)); diff != "" {
				t.Errorf("violations (-want +got):\n%s\n%s", diff, text(t, r))
			}
			if n := len(r.Runs); n != 4 || r.Runs[n-1].Outcome == report.Untried {
				t.Errorf("%d runs, want the fault to be tried:\n%s", n, text(t, r))
			}
		})
	}
}

// A counter of starts is greater after a restart. It is a note, and other fields are compared.
func TestCounterOfStarts(t *testing.T) {
	t.Parallel()
	for field, isCounter := range map[string]bool{"starts": true, "replicas": false} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			o := recordingOptions(func(*v1.Proxy, time.Time) map[string]string { return nil })
			o.Subject = kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
				return k.Start(countStarts(field), append(opts, testkit.WithConfig(k.Config))...)
			})
			o.SelectPlan = func(plan string) bool { return plan == "crash-after/update-configmaps-edge#1" }
			r := run(t, o)
			got, notes := violationsOf(r), strings.Join(r.Notes, "\n")
			switch {
			case isCounter && (len(got) > 0 || !strings.Contains(notes, "configmaps/edge.data.starts")):
				t.Errorf("violations %v, notes %q, want a note about the counter\n%s", got, notes, text(t, r))
			case !isCounter && !slices.Contains(got, "none/1: writes-after-restart"):
				t.Errorf("violations %v, want the write after a restart", got)
			}
		})
	}
}

func recordingOptions(record func(p *v1.Proxy, now time.Time) map[string]string) explore.Options {
	proxy := func(level string) func(k *testkit.K) {
		return func(k *testkit.K) {
			k.Apply(&v1.Proxy{
				ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1.ProxySpec{Settings: map[string]string{"level": level}},
			})
		}
	}
	return explore.Options{
		Opener: kitadapter.Open, Name: "recording", Timeout: testkit.DefaultTimeout, Seed: 1,
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			setup := func(mgr manager.Manager) error {
				r := &recordingOperator{mgr.GetClient(), mgr.GetAPIReader(), record}
				return ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{}).Owns(&corev1.ConfigMap{}).Complete(r)
			}
			return k.Start(setup, append(opts, testkit.WithConfig(k.Config))...)
		}),
		Steps: []explore.Step{kitadapter.Step("create", proxy("1")), kitadapter.Step("change", proxy("2"))},
	}
}

// recordingOperator maintains a ConfigMap with a record of the last change, and another one with the time in its name.
type recordingOperator struct {
	client.Client

	live   client.Reader
	record func(p *v1.Proxy, now time.Time) map[string]string
}

func (o *recordingOperator) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	proxy := &v1.Proxy{}
	if err := o.Get(ctx, req.NamespacedName, proxy); err != nil || !proxy.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: proxy.Namespace, Name: proxy.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, o, child, func() error {
		if level := proxy.Spec.Settings["level"]; child.Data["level"] != level {
			child.Data = map[string]string{"level": level}
			maps.Copy(child.Data, o.record(proxy, time.Now()))
		}
		return controllerutil.SetControllerReference(proxy, child, o.Scheme())
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, o.dated(ctx, proxy)
}

// dated creates the ConfigMap with the time in its name, if there is none.
func (o *recordingOperator) dated(ctx context.Context, proxy *v1.Proxy) error {
	labels := client.MatchingLabels{"dated": proxy.Name}
	list := &corev1.ConfigMapList{}
	if err := o.live.List(ctx, list, client.InNamespace(proxy.Namespace), labels); err != nil || len(list.Items) > 0 {
		return err
	}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: proxy.Namespace, Name: fmt.Sprintf("%s-%d", proxy.Name, time.Now().Unix()), Labels: labels,
	}}
	if err := controllerutil.SetControllerReference(proxy, child, o.Scheme()); err != nil {
		return err
	}
	return o.Create(ctx, child)
}

// countStarts returns an operator that maintains the ConfigMap of a Proxy, and counts its starts in a field of it.
func countStarts(field string) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		counted := map[client.ObjectKey]bool{} // used by one worker
		return ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{}).Owns(&corev1.ConfigMap{}).Complete(reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				proxy := &v1.Proxy{}
				err := mgr.GetClient().Get(ctx, req.NamespacedName, proxy)
				if err != nil || !proxy.DeletionTimestamp.IsZero() {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: proxy.Namespace, Name: proxy.Name}}
				_, err = controllerutil.CreateOrUpdate(ctx, mgr.GetClient(), child, func() error {
					n, _ := strconv.Atoi(child.Data[field]) // 0 at first
					if !counted[req.NamespacedName] {
						n++
					}
					child.Data = map[string]string{"level": proxy.Spec.Settings["level"], field: strconv.Itoa(n)}
					return controllerutil.SetControllerReference(proxy, child, mgr.GetScheme())
				})
				counted[req.NamespacedName] = counted[req.NamespacedName] || err == nil
				return reconcile.Result{}, err
			}))
	}
}
