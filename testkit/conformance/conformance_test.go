package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/conformance"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{}) }

var kind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}

func thing(namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"color": "green"}}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// operator makes Things ready. Its fields are mistakes.
type operator struct {
	client client.Client

	polls     bool // it requeues each object and writes it again
	unelected bool // it runs in each replica
}

// setup starts a copy, because each replica has a client of its own.
func (o *operator) setup(mgr manager.Manager, _ ...string) error {
	replica := *o
	replica.client = mgr.GetClient()
	return builder.ControllerManagedBy(mgr).Named("thing").For(thing("", "")).
		WithOptions(controller.Options{NeedLeaderElection: new(!o.unelected)}).
		Complete(&replica)
}

func (o *operator) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	got := thing("", "")
	if err := o.client.Get(ctx, req.NamespacedName, got); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if _, done, _ := unstructured.NestedSlice(got.Object, "status", "conditions"); done && !o.polls {
		return reconcile.Result{}, nil
	}
	ready := map[string]any{
		"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": time.Now().Format(time.RFC3339),
	}
	if err := unstructured.SetNestedSlice(got.Object, []any{ready}, "status", "conditions"); err != nil {
		return reconcile.Result{}, err
	}
	if o.polls {
		return reconcile.Result{RequeueAfter: 200 * time.Millisecond}, o.client.Status().Update(ctx, got)
	}
	return reconcile.Result{}, o.client.Status().Update(ctx, got)
}

func describe(o operator, overlays ...conformance.Overlay) conformance.Operator {
	return conformance.Operator{
		Setup: o.setup, Overlays: overlays, Samples: "testdata/samples",
		Columns: map[string]string{"things.example.com": "NAME COLOR AGE"},
		Example: func(namespace, name string) []client.Object { return []client.Object{thing(namespace, name)} },
		Timeout: 20 * time.Second,
	}
}

// violated returns the names of the violated rules in the order of the error, without duplicates.
func violated(t *testing.T, err error) []string {
	t.Helper()
	var names []string
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("the error is no list of violations: %v", err)
	}
	for _, one := range joined.Unwrap() {
		v := &conformance.Violation{}
		if !errors.As(one, &v) {
			t.Fatalf("the error is no violation: %v", one)
		}
		if v.Message == "" || v.Fix == "" || !strings.HasPrefix(v.Location, "overlay ") {
			t.Errorf("the violation has no explanation: %+v", v)
		}
		t.Log(v)
		names = append(names, v.Rule)
	}
	return slices.Compact(names)
}

func TestCorrectOperator(t *testing.T) {
	t.Parallel()
	o := describe(operator{},
		conformance.Overlay{Dir: "testdata/default"},
		conformance.Overlay{Dir: "testdata/namespaced", WatchNamespaces: []string{metav1.NamespaceDefault}})
	o.Categories = []string{"all"}
	if err := conformance.Check(t.Context(), o); err != nil {
		t.Error(err)
	}
}

// Each rule finds its violation, and none hides another one.
func TestViolations(t *testing.T) {
	t.Parallel()
	o := describe(operator{polls: true, unelected: true}, conformance.Overlay{Dir: "testdata/broken"})
	o.Samples = "testdata/brokensamples"
	o.Columns["things.example.com"] = "NAME SHAPE AGE"
	o.Categories = []string{"all"}
	got := violated(t, conformance.Check(t.Context(), o))
	want := []string{
		"least-privilege", "idempotent-install", "restricted-pods", "idle", "leader-election", "samples", "columns", "categories",
	}
	if !slices.Equal(got, want) {
		t.Errorf("violated are %v, want %v", got, want)
	}
}

// A missing permission is a violation that names it.
func TestMissingPermission(t *testing.T) {
	t.Parallel()
	o := describe(operator{}, conformance.Overlay{Dir: "testdata/unauthorized"})
	err := conformance.Check(t.Context(), o)
	if got, want := violated(t, err), []string{"warnings", "restricted-pods", "reconciles"}; !slices.Equal(got, want) {
		t.Errorf("violated are %v, want %v", got, want)
	}
	if !strings.Contains(fmt.Sprint(err), `cannot update resource \"things/status\"`) {
		t.Errorf("the error does not name the permission: %v", err)
	}
}

// An overlay for the whole cluster is no overlay for one namespace. Nothing is installed for that.
func TestNamespacedScope(t *testing.T) {
	t.Parallel()
	o := describe(operator{}, conformance.Overlay{Dir: "testdata/default", WatchNamespaces: []string{metav1.NamespaceDefault}})
	o.Skip = map[string]string{}
	for _, r := range conformance.Rules() {
		if r.Name != "namespaced-scope" {
			o.Skip[r.Name] = "the test is about another rule"
		}
	}
	err := conformance.Check(t.Context(), o)
	if got := violated(t, err); !slices.Equal(got, []string{"namespaced-scope"}) {
		t.Errorf("violated are %v", got)
	}
	for _, part := range []string{
		"ClusterRole thing-operator", "ClusterRoleBinding thing-operator", "--watch-namespaces=default",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not name %s: %v", part, err)
		}
	}
}

func TestInvalidOperator(t *testing.T) {
	t.Parallel()
	for _, o := range []conformance.Operator{
		{},
		describe(operator{}),
		{Skip: map[string]string{"no-such-rule": "it does not exist"}},
	} {
		if err := conformance.Check(t.Context(), o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}
