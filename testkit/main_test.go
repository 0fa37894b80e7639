package testkit_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
)

// withoutMain makes this test binary one of a package without testkit.Main.
const withoutMain = "TESTKIT_TEST_WITHOUT_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(withoutMain) != "" {
		os.Exit(m.Run())
	}
	testkit.Main(m, testkit.Env{CRDs: "testdata/crd", RBAC: "testdata/rbac"})
}

var widgetKind = schema.GroupVersionKind{Group: "testkit.homeostat.dev", Version: "v1", Kind: "Widget"}

func newWidget(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(widgetKind)
	u.SetName(name)
	return u
}

func newConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// setupWidgets is a small operator: it creates a ConfigMap per Widget and sets a condition.
func setupWidgets(mgr manager.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).For(newWidget("")).Complete(&widgets{Client: mgr.GetClient()})
	if err != nil {
		return fmt.Errorf("adding the controller: %w", err)
	}
	return nil
}

type widgets struct{ client.Client }

func (r *widgets) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := newWidget("")
	if err := r.Get(ctx, req.NamespacedName, w); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if conditions, _, _ := unstructured.NestedSlice(w.Object, "status", "conditions"); len(conditions) > 0 {
		return reconcile.Result{}, nil
	}
	child := newConfigMap(req.Name)
	child.Namespace = req.Namespace
	if err := ctrl.SetControllerReference(w, child, r.Scheme()); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.Create(ctx, child); err != nil && !apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, err
	}
	before := w.DeepCopy()
	if err := setReady(w); err != nil {
		return reconcile.Result{}, err
	}
	// Of two replicas only one may set the time of the transition.
	ifUnchanged := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return reconcile.Result{}, r.Status().Patch(ctx, w, ifUnchanged)
}

func setReady(w *unstructured.Unstructured) error {
	return unstructured.SetNestedSlice(w.Object, []any{map[string]any{
		"type": "Ready", "status": "True", "reason": "Made", "message": "",
		"observedGeneration": w.GetGeneration(), "lastTransitionTime": time.Now().Format(time.RFC3339),
	}}, "status", "conditions")
}

// A fakeT is a test that is expected to fail, run within a real one.
type fakeT struct {
	testing.TB

	mu     sync.Mutex
	output []string
	failed bool
}

// failing runs f with a fakeT and returns its output. The real test fails if f does not fail.
func failing(t *testing.T, f func(t testing.TB)) string {
	t.Helper()
	fake := &fakeT{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(fake)
	}()
	<-done
	if !fake.failed {
		t.Error("the inner test passed, but it should have failed")
	}
	return strings.Join(fake.output, "\n")
}

func (f *fakeT) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *fakeT) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

func (f *fakeT) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = true
	f.output = append(f.output, fmt.Sprintf(format, args...))
}

// contains checks the output of a failing test.
func contains(t *testing.T, output string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(output, want) {
			t.Errorf("the output lacks %q:\n%s", want, output)
		}
	}
}
