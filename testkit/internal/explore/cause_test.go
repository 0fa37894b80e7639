package explore_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Several plans find the same bug: the operator drops the error of a write. They are one finding, although an object is
// missing in some of the runs, and has an old value in others.
func TestOneCauseIsOneFinding(t *testing.T) {
	t.Parallel()
	o := causeOptions(&causeOperator{dropsErrors: true}, "error-500", "error-503") // a client repeats what gets 429
	o.Steps = append(o.Steps, kitadapter.Step("three", applyLevel("3")))
	o.Timeout = 3 * time.Second
	o.Parallel = 12 // the failed runs wait for the timeout, and do nothing else
	r := run(t, o)
	failed := len(r.Failures())
	if failed < 11 {
		t.Fatalf("%d runs failed, want at least 11\n%s", failed, text(t, r))
	}
	found := r.Findings()
	if len(found) != 1 || len(found[0].Runs) != failed {
		t.Errorf("findings %v, want one with all %d failed runs\n%s", found, failed, text(t, r))
	}
	if want := fmt.Sprintf("The same cause in %d other runs: ", failed-1); strings.Count(text(t, r), want) != 1 {
		t.Errorf("%q is not once in the text:\n%s", want, text(t, r))
	}
	if other := regexp.MustCompile(`In some of them it is about: configmaps/edge(-copy)?\n`); !other.MatchString(text(t, r)) {
		t.Errorf("the other ConfigMap is not in the text:\n%s", text(t, r))
	}
	if name := regexp.MustCompile(`\S+-run-[0-9a-f]{8}`).FindString(text(t, r)); name != "" {
		t.Errorf("the text has the name of a run, %s, and should have $NAMESPACE:\n%s", name, text(t, r))
	}
}

// Missing objects of different kinds have different causes. Those of one kind have the same one, and each finding names its
// objects.
func TestCauseOfMissingObjects(t *testing.T) {
	t.Parallel()
	const status = "  proxies.mutants.homeostat.dev/edge\n-   status.ready: true\n+   status.ready: false\n"
	violation := func(diff string) report.Violation { return explore.EndStateViolation(diff + status) }
	service, other := violation("- services/web\n"), violation("- services/db\n")
	claim, both := violation("- persistentvolumeclaims/web\n"), violation("- persistentvolumeclaims/web\n- services/web\n")
	for _, v := range []report.Violation{claim, both} {
		if v.CauseKey() == service.CauseKey() {
			t.Errorf("missing %v and missing %v have the same cause %q", v.Objects, service.Objects, v.CauseKey())
		}
	}
	if other.CauseKey() != service.CauseKey() {
		t.Errorf("the causes of two missing Services are %q and %q", other.CauseKey(), service.CauseKey())
	}
	want := [][]string{{"services/web"}, {"services/db"}, {"persistentvolumeclaims/web", "services/web"}}
	if diff := cmp.Diff(want, [][]string{service.Objects, other.Objects, both.Objects}); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

// A finding of a plan that passes in a second run says so.
func TestFindingByChance(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		operator *causeOperator
		again    report.Outcome
		want     bool
	}{
		"chance": {&causeOperator{dropsFirst: true}, report.Passed, true},
		"always": {&causeOperator{dropsErrors: true}, report.Failed, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := causeOptions(test.operator, "error-500")
			o.Steps = o.Steps[:1]
			o.SelectPlan = func(name string) bool { return name == "error-500/create-configmaps-edge#1" }
			o.Timeout = 3 * time.Second
			o.Replay = func(string) string { return "the command" }
			r := run(t, o)
			failed := r.Failures()
			if len(failed) != 1 || failed[0].Again != test.again {
				t.Fatalf("want one failed run, whose second run has %s\n%s", test.again, text(t, r))
			}
			if is := strings.Contains(text(t, r), "A second run of this plan did not find this again"); is != test.want {
				t.Errorf("the text mentions a second run: %v, want %v\n%s", is, test.want, text(t, r))
			}
		})
	}
}

// What an operator does in several namespaces has one cause.
func TestCauseInSeveralNamespaces(t *testing.T) {
	t.Parallel()
	cause := func(object string) string {
		return explore.CauseOf("foreign", "the operator changed configmaps/"+object+", which")
	}
	const a, b = "$NAMESPACE-team-a:roots", "$NAMESPACE-team-b:roots"
	if cause(a) != cause(b) {
		t.Errorf("%q and %q differ", cause(a), cause(b))
	}
	for _, other := range []string{"$NAMESPACE-team-b:others", "roots", "$NAMESPACE-roots"} {
		if cause(a) == cause(other) {
			t.Errorf("%s and %s have the same cause %q", a, other, cause(a))
		}
	}
}

// A status that is wrong in the same way for each status of a condition has one cause.
func TestCauseForEachConditionStatus(t *testing.T) {
	t.Parallel()
	cause := func(condition, status string) string {
		return explore.CauseOf("status", fmt.Sprintf(
			"the lastTransitionTime of condition %s moved although its status stayed %s", condition, status))
	}
	if a, b := cause("Synced", "True"), cause("Synced", "False"); a != b {
		t.Errorf("%q and %q differ", a, b)
	}
	if a, b := cause("Synced", "True"), cause("Ready", "True"); a == b {
		t.Errorf("two conditions have the same cause %q", a)
	}
}

// A finding in the runs without a fault does not end the exploration, and is not held against the faults again.
func TestFindingWithoutFault(t *testing.T) {
	t.Parallel()
	r := run(t, causeOptions(&causeOperator{asksForPods: true}, "error-503"))
	found := r.Findings()
	all := []string{"none/1", "none/2", "none/3"}
	if len(found) != 1 || found[0].Oracle != "forbidden" || !slices.Equal(found[0].Runs, all) {
		t.Errorf("findings %v, want a missing permission in the runs without a fault\n%s", found, text(t, r))
	}
	if passed := r.Count(report.Passed); passed < 2 {
		t.Errorf("%d plans passed, want several\n%s", passed, text(t, r))
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "violates without a fault (1)") {
		t.Errorf("the notes do not mention the finding: %s", notes)
	}
}

// What is left without a fault may be gone after a fault that deletes everything early. It may also be made after the
// deletion, by an operator that was about to.
func TestResidueThatIsGone(t *testing.T) {
	t.Parallel()
	for name, isLate := range map[string]bool{"usual": false, "late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testResidueThatIsGone(t, isLate)
		})
	}
}

func testResidueThatIsGone(t *testing.T, isLate bool) {
	t.Helper()
	operator := &causeOperator{leaves: true, isLate: isLate}
	o := causeOptions(operator, "namespace-deleted", "deleted")
	o.Timeout = 5 * time.Second // the runs without a fault wait for the end of what is left
	if isLate {
		o.Steps[0] = kitadapter.Step("one", func(k *testkit.K) {
			applyLevel("1")(k)
			select {
			case <-operator.firstReconcile(k.Namespace):
			case <-k.Context().Done():
			}
		})
	}
	r := run(t, o)
	found := r.Findings()
	if len(found) != 2 || found[0].Oracle != "residue" || !strings.HasPrefix(found[0].Runs[len(found[0].Runs)-1], "none/") {
		t.Errorf("findings %v, want two ConfigMaps that are left without a fault\n%s", found, text(t, r))
	}
	if passed := r.Count(report.Passed); passed < 2 {
		t.Errorf("%d plans passed, want several\n%s", passed, text(t, r))
	}
}

// applyLevel returns the action of a step.
func applyLevel(level string) func(*testkit.K) {
	return func(k *testkit.K) {
		k.Apply(&v1.Proxy{
			ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1.ProxySpec{Settings: map[string]string{"level": level}},
		})
	}
}

func causeOptions(o *causeOperator, faults ...string) explore.Options {
	return explore.Options{
		Opener: kitadapter.Open, Name: "causes", Timeout: testkit.DefaultTimeout, Seed: 1, Faults: faults,
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			cfg := k.Config
			if o.asksForPods {
				cfg = k.ServiceAccount("proxy")
			}
			return k.Start(o.setup, append(opts, testkit.WithConfig(cfg))...)
		}),
		Steps: []explore.Step{kitadapter.Step("one", applyLevel("1")), kitadapter.Step("two", applyLevel("2"))},
	}
}

// causeOperator maintains two ConfigMaps.
type causeOperator struct {
	dropsErrors bool // a failed write is not retried
	dropsFirst  bool // only the first one of all runs is not
	leaves      bool // the ConfigMaps have no owner
	asksForPods bool // it lists a kind that its roles do not allow, and does without

	isLate bool // it waits for a second, or the deletion of the Proxy, before it creates the ConfigMaps

	hasDropped      atomic.Bool
	firstReconciles sync.Map // channels by namespace
}

// drops reports whether an error is dropped.
func (o *causeOperator) drops() bool {
	return o.dropsErrors || o.dropsFirst && o.hasDropped.CompareAndSwap(false, true)
}

// firstReconcile returns a channel that is closed in the first reconcile in a namespace, if the operator is late.
func (o *causeOperator) firstReconcile(namespace string) chan struct{} {
	c, _ := o.firstReconciles.LoadOrStore(namespace, make(chan struct{}))
	return c.(chan struct{})
}

// delayCreation delays the first reconcile in a namespace until the deletion of the Proxy, for a limited time.
func (o *causeOperator) delayCreation(ctx context.Context, live client.Reader, req reconcile.Request) error {
	first := o.firstReconcile(req.Namespace)
	select {
	case <-first:
		return nil
	default:
		close(first) // there is one worker
	}
	for began := time.Now(); time.Since(began) < time.Second; {
		if err := live.Get(ctx, req.NamespacedName, &v1.Proxy{}); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return nil
}

func (o *causeOperator) setup(mgr manager.Manager) error {
	c, live := mgr.GetClient(), mgr.GetAPIReader()
	reconciler := reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		proxy := &v1.Proxy{}
		if err := c.Get(ctx, req.NamespacedName, proxy); err != nil || !proxy.DeletionTimestamp.IsZero() {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if o.asksForPods {
			_ = live.List(ctx, &corev1.PodList{}, client.InNamespace(req.Namespace))
		}
		if o.isLate {
			if err := o.delayCreation(ctx, live, req); err != nil {
				return reconcile.Result{}, err
			}
		}
		for _, name := range []string{req.Name, req.Name + "-copy"} {
			child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: name}}
			_, err := controllerutil.CreateOrUpdate(ctx, c, child, func() error {
				child.Data = map[string]string{"level": proxy.Spec.Settings["level"]}
				if o.leaves {
					return nil
				}
				return controllerutil.SetControllerReference(proxy, child, mgr.GetScheme())
			})
			if err != nil && !o.drops() {
				return reconcile.Result{}, err
			}
		}
		return reconcile.Result{}, nil
	})
	b := ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{})
	if !o.dropsErrors && !o.dropsFirst { // or an event of one ConfigMap would repair the other
		b = b.Owns(&corev1.ConfigMap{})
	}
	return b.Complete(reconciler)
}

// A step changes what the operator makes in the step before. A run in which it cannot exist yet says nothing.
func TestStepThatCannotBeDone(t *testing.T) {
	t.Parallel()
	o := causeOptions(&causeOperator{}, "down", "missed")
	o.Steps[1] = kitadapter.Step("annotate", func(k *testkit.K) {
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "edge"}}
		k.Update(child, func() { child.Annotations = map[string]string{"a": "b"} })
	})
	r := run(t, o)
	untried := map[string]string{}
	for _, run := range r.Runs {
		if run.Outcome == report.Untried {
			untried[run.Name] = run.UntriedReason
		}
	}
	const want = "a step cannot be done before the operator has made what it is about: "
	for _, plan := range []string{"down@one+annotate", "missed/proxies.mutants.homeostat.dev@one+annotate"} {
		if !strings.HasPrefix(untried[plan], want) {
			t.Errorf("%s is untried because of %q, want %q\n%s", plan, untried[plan], want, text(t, r))
		}
	}
	if len(r.Failures()) > 0 {
		t.Errorf("a run failed\n%s", text(t, r))
	}
}
