package gen

import (
	"context"
	_ "embed"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/testkit"
)

//go:embed testdata/teams-crd.yaml
var teamCRD []byte

// teamDefinition returns the CustomResourceDefinition of Team, which is cluster-scoped.
func teamDefinition() client.Object {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(teamCRD, u); err != nil {
		panic(err)
	}
	return u
}

// teams is an operator that creates a Namespace for each Team. With merge, it keeps labels that are no longer desired.
func teams(merge bool) setup {
	return func(mgr manager.Manager) error {
		c := mgr.GetClient()
		team := &unstructured.Unstructured{}
		team.SetAPIVersion("gen.homeostat.dev/v1")
		team.SetKind("Team")
		return ctrl.NewControllerManagedBy(mgr).Named("teams").For(team).Owns(&corev1.Namespace{}).Complete(reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				u := team.DeepCopy()
				if err := c.Get(ctx, req.NamespacedName, u); err != nil || u.GetDeletionTimestamp() != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: u.GetName()}}
				_, err := controllerutil.CreateOrUpdate(ctx, c, ns, func() error {
					if ns.Labels == nil {
						ns.Labels = map[string]string{}
					}
					isolated, _, _ := unstructured.NestedBool(u.Object, "spec", "isolated")
					switch {
					case isolated:
						ns.Labels["isolated"] = "true"
					case !merge:
						delete(ns.Labels, "isolated")
					}
					return controllerutil.SetControllerReference(u, ns, c.Scheme())
				})
				if err != nil {
					return reconcile.Result{}, err
				}
				observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
				if observed == u.GetGeneration() {
					return reconcile.Result{}, nil
				}
				if err := unstructured.SetNestedField(u.Object, u.GetGeneration(), "status", "observedGeneration"); err != nil {
					return reconcile.Result{}, err
				}
				return reconcile.Result{}, client.IgnoreNotFound(c.Status().Update(ctx, u))
			}))
	}
}

// A custom resource that is cluster-scoped is explored like others, with an operator of each run.
func TestClusterScoped(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		merge bool
		rule  string // a violation that a check reports when a Namespace is isolated
		want  string
	}{
		"Correct": {false, "", ""},
		"Merge":   {true, "", oracleFresh},
		"Check":   {false, "it is isolated", "never"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := testkit.Config(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var checked, ended atomic.Int64
			check := Check("a rule", func(k *testkit.K) string {
				checked.Add(1)
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue-" + k.Namespace}}
				err := k.Client.Get(k.Context(), client.ObjectKeyFromObject(ns), ns)
				if client.IgnoreNotFound(err) != nil || ns.Labels["isolated"] != "true" {
					return ""
				}
				return test.rule
			})
			each := Each(func(k *testkit.K) testkit.Runnable {
				// Entries that exist before the first step are no residue.
				k.External(http.NotFoundHandler(), func() any { return map[string][]string{"entries": {"of another client"}} })
				return teams(test.merge)
			})
			c := mustPrepare(t, each, From("testdata/teams-crd.yaml", "testdata/teams.yaml"), []Option{
				QuietPeriod(300 * time.Millisecond), ShrinkTimeout(0), Steps(20), WithStartOptions(testkit.WithConfig(cfg)),
				check, AfterRun(func(*testkit.K) { ended.Add(1) }),
			})
			f, how, err := c.explore(t, c.bySeed(t, 1, 0))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if f != nil {
				got = f.oracle
				t.Logf("\n%s", f.text("", how))
			}
			if ended.Load() < 2 || checked.Load() < 1 {
				t.Errorf("%d runs ended with %d checks, want at least 2 runs and a check", ended.Load(), checked.Load())
			}
			if got != test.want {
				t.Errorf("oracle %q found something, want %q", got, test.want)
			}
		})
	}
}

// A failure of AfterRun ends the exploration, also in a run that applies the sample alone.
func TestFailingAfterRun(t *testing.T) {
	t.Parallel()
	cfg, err := testkit.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	missing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "missing"}}
	c, err := prepare(t, teams(false), From("testdata/teams-crd.yaml", "testdata/teams.yaml"), []Option{
		QuietPeriod(300 * time.Millisecond), WithStartOptions(testkit.WithConfig(cfg)),
		AfterRun(func(k *testkit.K) { k.Get(missing) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.checkSample(t.Context()); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("the sample: %v, want a failure to get the ConfigMap", err)
	}
}
