package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
)

// meantToFail enables the tests with the prefix TestFailing. Other tests run them in separate processes.
const meantToFail = "TESTKIT_TEST_FAILING"

func onlyToFail(t *testing.T) {
	t.Helper()
	if os.Getenv(meantToFail) == "" {
		t.Skip("it is run by another test, in a process of its own")
	}
}

// refail runs a test that is meant to fail, without -v unless given, and returns its output.
func refail(t *testing.T, test string, flags ...string) string {
	t.Helper()
	out, err := rerunWith(t, append(flags, "-test.run="+test), meantToFail+"=1")
	if err == nil {
		t.Errorf("the test has passed:\n%s", out)
	}
	return out
}

// errNoQuota is the permanent error of setupBroken's operator.
var errNoQuota = errors.New("the quota service says no")

// setupBroken is an operator that creates a ConfigMap, emits an Event, and then fails permanently.
func setupBroken(mgr manager.Manager) error {
	r := &broken{Client: mgr.GetClient(), events: mgr.GetEventRecorder("widgets")}
	return ctrl.NewControllerManagedBy(mgr).For(newWidget("")).Complete(r)
}

type broken struct {
	client.Client

	events interface {
		Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any)
	}
}

func (r *broken) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := newWidget("")
	if err := r.Get(ctx, req.NamespacedName, w); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	child := newConfigMap(req.Name)
	child.Namespace = req.Namespace
	child.Data = map[string]string{"color": "red"}
	if err := ctrl.SetControllerReference(w, child, r.Scheme()); err != nil {
		return reconcile.Result{}, err
	}
	if err := client.IgnoreAlreadyExists(r.Create(ctx, child)); err != nil {
		return reconcile.Result{}, err
	}
	r.events.Eventf(w, nil, corev1.EventTypeNormal, "Created", "Create", "made ConfigMap %s", child.Name)
	return reconcile.Result{}, errNoQuota
}

func TestFailingOperator(t *testing.T) {
	onlyToFail(t)
	t.Run("with a subtest", func(t *testing.T) {
		k := testkit.New(t)
		k.Start(setupBroken)
		w := k.Apply(newWidget("orders"))
		child := newConfigMap("orders")
		k.Eventually(child, testkit.Exists())
		k.Wait("the operator has emitted an Event", func(ctx context.Context) error {
			var events corev1.EventList
			if err := k.Client.List(ctx, &events, client.InNamespace(k.Namespace)); err != nil || len(events.Items) > 0 {
				return err
			}
			return errors.New("there is none")
		})
		k.Update(child, func() { child.Data["color"] = "blue" })
		k.Timeout = 3 * time.Second // the expected failure
		k.Eventually(w, testkit.Ready())
	})
}

// The timeline must explain the failure to a reader who does not know the operator.
func TestFailureTimeline(t *testing.T) {
	t.Parallel()
	out := refail(t, "TestFailingOperator")
	contains(t, out,
		// The expectation of the test.
		"waiting for Widget", "ready: ",
		// The actions of the test.
		"apply widgets.testkit.homeostat.dev orders -> 201", "waits until Widget orders is: ready", "the operator starts",
		"update configmaps orders -> 200",
		// The requests of the operator.
		"operator  create configmaps orders -> 201",
		// Their effects.
		"cluster   Widget orders is created", "cluster   ConfigMap orders is created, owned by Widget orders", `data.color: "red"`,
		`cluster   ConfigMap orders is changed: data.color: "red" -> "blue"`,
		// The operator's log and Events.
		"log       Reconciler error: the quota service says no", "event     Widget orders: Created: made ConfigMap orders",
		// The command to repeat the test.
		"go test -run '^TestFailingOperator$/^with_a_subtest$' -count 1 ", " github.com/homeostat-dev/homeostat/testkit\n",
	)
	if n := strings.Count(out, "Timeline, "); n != 1 {
		t.Errorf("there are %d timelines:\n%s", n, out)
	}
	if n := strings.Count(out, "Reconciler error"); n > 40 {
		t.Errorf("the same error is printed %d times", n)
	}
	var last time.Duration
	for _, found := range regexp.MustCompile(`(?m)^\s+!?\s+(\d+\.\d+s)  `).FindAllStringSubmatch(out, -1) {
		at, err := time.ParseDuration(found[1])
		if err != nil || at < last {
			t.Errorf("%s comes after %s", found[1], last)
		}
		last = at
	}
	if last == 0 {
		t.Error("no entry has a time")
	}
}

func TestVerboseStreamsLog(t *testing.T) {
	t.Parallel()
	out := refail(t, "TestFailingOperator", "-test.v")
	before, _, _ := strings.Cut(out, "Timeline, ")
	contains(t, before, "Reconciler error: the quota service says no", "controller=widget", "name=orders")
}

// setupBusy is an operator that writes permanently.
func setupBusy(namespace string, writes int) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		c := mgr.GetClient()
		return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			for i := range writes {
				child := newConfigMap(fmt.Sprintf("child-%03d", i))
				child.Namespace = namespace
				if err := c.Create(ctx, child); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

func TestFailingWithLongTimeline(t *testing.T) {
	onlyToFail(t)
	k := testkit.New(t)
	k.Timeout = 2 * time.Minute // for 300 objects beside other tests
	k.Start(setupBusy(k.Namespace, 300))
	k.Eventually(newConfigMap("child-299"), testkit.Exists())
	t.Error("it is enough")
}

func TestTimelineIsBounded(t *testing.T) {
	t.Parallel()
	out := refail(t, "TestFailingWithLongTimeline")
	contains(t, out, "child-000", "child-299", "entries left out")
	if !regexp.MustCompile(`Timeline, \d+ of 6\d\d entries`).MatchString(out) {
		t.Errorf("it does not print the number of entries:\n%s", out)
	}
	if n := strings.Count(out, "\n"); n > 200 {
		t.Errorf("it has %d lines", n)
	}
}

func TestFailingWithPanic(t *testing.T) {
	onlyToFail(t)
	k := testkit.New(t)
	k.Apply(newWidget("orders"))
	panic("on purpose")
}

func TestPanicTimeline(t *testing.T) {
	t.Parallel()
	contains(t, refail(t, "TestFailingWithPanic"), "panic: on purpose", "apply widgets.testkit.homeostat.dev orders -> 201",
		"go test -run '^TestFailingWithPanic$'")
}

func TestPassingTestPrintsNothing(t *testing.T) {
	t.Parallel()
	out, err := rerun(t, "TestStartRecordsRequests")
	if err != nil {
		t.Error(err)
	}
	if strings.Contains(out, "Timeline") || strings.Contains(out, "go test -run") {
		t.Errorf("a passing test prints a timeline:\n%s", out)
	}
}
