package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/site"
	"github.com/homeostat-dev/homeostat/testkit"
)

// done returns the readiness of a ConfigMap, which is in its data.
func done(c *corev1.ConfigMap) (bool, string) { return c.Data["done"] == "yes", "it is not done" }

func TestAfterOrdersByReadiness(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(func(_ context.Context, p *pass) error {
		first := sdk.Apply(p, configMap(p.Object, "first"), sdk.ReadyWhen(done))
		second := sdk.Apply(p, configMap(p.Object, "second"), sdk.ReadyWhen(done), sdk.After(first))
		sdk.Apply(p, configMap(p.Object, "third"), sdk.After(first, second))
		return nil
	}))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Progressing"))
	want := "ConfigMap first: it is not done; ConfigMap second waits for ConfigMap first; " +
		"ConfigMap third waits for ConfigMap first"
	if _, _, message := condition(s, conditions.Ready); message != want {
		t.Errorf("message %q, want %q", message, want)
	}
	if got := sent(k, running); strings.Contains(fmt.Sprint(got), "second") {
		t.Errorf("a child was created too early: %v", got)
	}
	mustPatch(t, k, named(&corev1.ConfigMap{}, "first"), types.MergePatchType, `{"data":{"done":"yes"}}`)
	k.Eventually(named(&corev1.ConfigMap{}, "second"), testkit.Exists())
	if got := sent(k, running); strings.Contains(fmt.Sprint(got), "third") {
		t.Errorf("a child was created too early: %v", got)
	}
	mustPatch(t, k, named(&corev1.ConfigMap{}, "second"), types.MergePatchType, `{"data":{"done":"yes"}}`)
	k.Eventually(named(&corev1.ConfigMap{}, "third"), testkit.Exists())
	k.Eventually(s, testkit.Ready())

	// A child that waits is neither changed nor pruned.
	running.Recorder().Reset()
	mustPatch(t, k, named(&corev1.ConfigMap{}, "first"), types.MergePatchType, `{"data":{"done":"no"}}`)
	k.Eventually(s, testkit.Condition(conditions.Ready, metav1.ConditionFalse))
	k.Update(s, func() { s.Spec.Text = "new" })
	k.Eventually(named(&corev1.ConfigMap{}, "first"), text("new"))
	waitIdle(k, running, quietPeriod)
	for _, name := range []string{"second", "third"} {
		if c := get(k, named(&corev1.ConfigMap{}, name)); c.Data["text"] != "hello" {
			t.Errorf("%s was changed although it waits: %v", name, c.Data)
		}
	}
}

// With AfterCreated, a child is not created while a foreign object has the name of the other child. It does not wait for the
// other child to be ready.
func TestAfterCreatedWaitsForOwnChild(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	running := start(k, operator(func(_ context.Context, p *pass) error {
		first := sdk.Apply(p, configMap(p.Object, "first"), sdk.ReadyWhen(done))
		sdk.Apply(p, configMap(p.Object, "second"), sdk.AfterCreated(first))
		return nil
	}))
	theirs := named(&corev1.ConfigMap{}, "first")
	k.Apply(theirs)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ResourceConflict"))
	waitIdle(k, running, quietPeriod)
	k.Eventually(named(&corev1.ConfigMap{}, "second"), testkit.Gone())
	k.Delete(theirs)
	k.Eventually(named(&corev1.ConfigMap{}, "second"), testkit.Exists())
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Progressing"))
	if _, _, message := condition(s, conditions.Ready); message != "ConfigMap first: it is not done" {
		t.Errorf("the message is %q", message)
	}
}

func TestCreateOnlyChildIsNeverChanged(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var generated atomic.Int64
	op := operator(func(_ context.Context, p *pass) error {
		sdk.Apply(p, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: p.Object.Name},
			StringData: map[string]string{"password": strconv.FormatInt(generated.Add(1), 10)}, // differs in each reconcile
		}, sdk.CreateOnly())
		return nil
	})
	op.Resync = 20 * time.Millisecond
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	o := get(k, named(&corev1.Secret{}, s.Name))
	running.Recorder().Reset()
	mustPatch(t, k, o, types.MergePatchType, `{"stringData":{"password":"changed by hand"}}`)
	requireUnchanged(t, k, running, o)
	if got := sent(k, running); len(got) > 0 {
		t.Errorf("requests: %v", got)
	}
	k.Delete(o)
	k.Eventually(named(&corev1.Secret{}, s.Name), testkit.Match("a new one", func(s *corev1.Secret) bool {
		return s.UID != o.UID
	}))
}

// Another replica created the child, and the informer has not received it yet. The values of this replica do not replace it.
func TestCreateOnlyChildNotInCache(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var generated atomic.Int64
	var started atomic.Bool
	created := make(chan struct{})
	generate := func(p *pass) {
		sdk.Apply(p, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: p.Object.Name},
			StringData: map[string]string{"password": strconv.FormatInt(generated.Add(1), 10)},
		}, sdk.CreateOnly())
	}
	slow := &faults{lagging: func(req *http.Request) bool { return strings.Contains(req.URL.Path, "/secrets") }}
	late := start(k, operator(func(ctx context.Context, p *pass) error {
		started.Store(true)
		select {
		case <-created:
		case <-ctx.Done():
			return ctx.Err()
		}
		generate(p)
		return nil
	}), slow.config(k))
	s := newSite("a")
	k.Apply(s)
	k.Wait("the late replica has read the site", func(context.Context) error {
		if !started.Load() {
			return errors.New("it has not")
		}
		return nil
	})
	slow.lag.Store(int64(time.Hour))
	start(k, operator(func(_ context.Context, p *pass) error {
		generate(p)
		return nil
	}))
	o := named(&corev1.Secret{}, s.Name)
	k.Eventually(o, testkit.Exists())
	close(created)
	k.Wait("the late replica reads the child that it could not create", func(context.Context) error {
		for _, r := range late.Recorder().Requests() {
			if r.Verb == "get" && r.Resource == "secrets" {
				return nil
			}
		}
		return errors.New("it has not")
	})
	requireUnchanged(t, k, late, o)
	slow.lag.Store(0)
	requireUnchanged(t, k, late, o)
}

func TestLiveReturnsChildrenOnly(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	type view struct {
		Exists, Sees bool
		Text         string
		Foreign      bool
	}
	var last atomic.Value
	running := start(k, operator(func(_ context.Context, p *pass) error {
		_, foreign := sdk.Live(p, named(&corev1.ConfigMap{}, "foreign"))
		live, sees := sdk.Live(p, named(&corev1.ConfigMap{}, p.Object.Name))
		child := sdk.Apply(p, configMap(p.Object, p.Object.Name))
		last.Store(view{child.Exists(), sees, child.Live().Data["text"], foreign})
		live.Data = map[string]string{"text": "changed"} // both are copies
		child.Live().Labels = nil
		return nil
	}))
	k.Apply(named(&corev1.ConfigMap{}, "foreign"))
	s := newSite("a")
	k.Apply(s)
	converged(k, running, s)
	if diff := cmp.Diff(view{Exists: true, Sees: true, Text: "hello"}, last.Load()); diff != "" {
		t.Errorf("view of the last reconcile (-want +got):\n%s", diff)
	}
}

// A pod on an unresponsive node is deleted by force with one request, even if the event of its deletion is late.
func TestForceDeleteSendsOneRequest(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]time.Duration{"current watches": 0, "lagging watches": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			f := &faults{counted: func(req *http.Request) bool {
				return req.Method == http.MethodDelete && strings.HasSuffix(req.URL.Path, "/pods/a")
			}}
			op := operator(func(_ context.Context, p *pass) error {
				o := pod(p.Object, p.Object.Name)
				o.Spec.NodeName = "away" // deletion of the pod takes a grace period
				if live, ok := sdk.Live(p, o); ok && live.DeletionTimestamp != nil {
					p.Object.Status.UID = string(live.UID)
					sdk.ForceDelete(p, live)
					return nil
				}
				if p.Object.Status.UID == "" {
					sdk.Apply(p, o, sdk.ReadyWhen(func(client.Object) (bool, string) { return true, "" }))
				}
				return nil
			})
			running := start(k, op, f.config(k))
			s := newSite("a")
			k.Apply(s)
			converged(k, running, s)
			o := get(k, named(&corev1.Pod{}, s.Name))
			f.lag.Store(int64(late))
			k.Delete(o)
			k.Eventually(o, testkit.Gone())
			waitIdle(k, running, quietPeriod+2*late)
			if n := len(f.times()); n != 1 {
				t.Errorf("%d DELETE requests", n)
			}
		})
	}
}

func TestRequeueAfter(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	var passes passTimes
	running := start(k, operator(func(_ context.Context, p *pass) error {
		passes.add()
		p.RequeueAfter(time.Hour)
		p.RequeueAfter(50 * time.Millisecond) // the shortest counts
		p.RequeueAfter(0)
		return nil
	}))
	s := newSite("a")
	k.Apply(s)
	passes.wait(k, 6)
	atLeastApart(t, passes.gaps()[2:], 50*time.Millisecond, 50*time.Millisecond)
	k.Delete(s)
	k.Eventually(s, testkit.Gone())
	waitIdle(k, running, quietPeriod)
	before := len(passes.gaps())
	waitIdle(k, running, observationPeriod)
	if after := len(passes.gaps()); after != before {
		t.Errorf("%d reconciles of a deleted object", after-before)
	}
}

func TestNotReadyAndSuspended(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k, operator(func(ctx context.Context, p *pass) error {
		switch p.Object.Spec.Text {
		case "not-ready":
			p.SetNotReady("Warming", "the cache is %s", "cold")
			p.SetNotReady("Second", "does not count")
		case "idle":
			p.SetSuspended("Suspended", "spec.text says so")
		}
		return oneChild(ctx, p)
	}))
	s := newSite("a")
	for _, c := range []struct {
		text, reason string
		reconciling  metav1.ConditionStatus
	}{{"not-ready", "Warming", metav1.ConditionTrue}, {"idle", "Suspended", metav1.ConditionFalse}} {
		s.Spec.Text = c.text
		k.Apply(s)
		k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, c.reason),
			testkit.Condition(conditions.Reconciling, c.reconciling),
			testkit.Condition(conditions.Stalled, metav1.ConditionFalse))
		k.Eventually(named(&corev1.ConfigMap{}, s.Name), text(c.text)) // the plan is carried out nevertheless
	}
}

// A child of an unwatched kind would never get into the cache.
func TestChildOfUnlistedKindIsRejected(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := operator(func(ctx context.Context, p *pass) error {
		sdk.Apply(p, named(&corev1.Secret{}, "key"))
		return oneChild(ctx, p)
	})
	op.Owns = []client.Object{&corev1.ConfigMap{}}
	running := start(k, op)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "Panic"))
	want := "panic: Secret key is of a kind (v1 Secret) that is not watched: add it to Owns"
	if _, _, message := condition(s, conditions.Ready); message != want {
		t.Errorf("message %q, want %q", message, want)
	}
	for _, r := range running.Recorder().Writes() {
		if r.Resource == "secrets" || r.Resource == "configmaps" {
			t.Errorf("a request for a rejected child: %s", r)
		}
	}
}

// SetupWithManager rejects a wrong Owns, because the program would never become ready.
func TestInvalidOwnsIsRejected(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for message, owns := range map[string][]client.Object{
		"field Owns lists ConfigMap, which is listed already":                       {&corev1.ConfigMap{}, &corev1.ConfigMap{}},
		"field Owns lists Site.e2e.homeostat.dev, which is the operator's own kind": {&corev1.ConfigMap{}, &site.Site{}},
	} {
		scheme := runtime.NewScheme() // not the shared one: the operator registers its types with it
		if err := clientgoscheme.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		mgr, err := manager.New(k.Config, manager.Options{
			Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		})
		if err != nil {
			t.Fatal(err)
		}
		op := operator(oneChild)
		op.Owns = owns
		want := `operator "sdk-e2e" is not usable: ` + message
		if err := op.SetupWithManager(mgr); err == nil || err.Error() != want {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

// A child in an unwatched namespace could neither be repaired nor deleted.
func TestChildInUnwatchedNamespace(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	start(k, operator(func(_ context.Context, p *pass) error {
		c := configMap(p.Object, p.Object.Name)
		c.Namespace = "default"
		sdk.Apply(p, c)
		return nil
	}))
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "NamespaceNotWatched"))
	if _, _, message := condition(s, conditions.Ready); !strings.Contains(message, "ConfigMap default/a") {
		t.Errorf("message %q", message)
	}
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.Name}}
	k.Eventually(c, testkit.Gone())
}
