package clusterscoped_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
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
)

func TestMain(m *testing.M) {
	if name := os.Getenv(programVariable); name != "" {
		if err := runProgram(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testkit.Main(m, testkit.Env{Private: true})
}

// reconciler returns an operator for PriorityClasses, which own Namespaces, or for ConfigMaps.
func reconciler(of client.Object, f func(context.Context, client.Client, client.ObjectKey) error) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		b := ctrl.NewControllerManagedBy(mgr).Named("operator").For(of)
		if _, isClass := of.(*schedulingv1.PriorityClass); isClass {
			b = b.Owns(&corev1.Namespace{})
		}
		return b.Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, f(ctx, mgr.GetClient(), req.NamespacedName)
		}))
	}
}

// tenants creates a Namespace for each PriorityClass. With recordFirst it records the creation in the class before, and
// relies on the record. If they are not owned, the Namespaces outlive the classes.
func tenants(recordFirst, owned bool) testkit.SetupFunc {
	return makers(&schedulingv1.PriorityClass{}, newNamespace, recordFirst, owned)
}

func newNamespace(key client.ObjectKey) client.Object {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: key.Name},
	}
}

func newRoster(key client.ObjectKey) client.Object {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "roster"},
	}
}

// makers applies a child for each parent whose name ends with -tenant. See tenants.
func makers(of client.Object, newChild func(client.ObjectKey) client.Object, recordFirst, owned bool) testkit.SetupFunc {
	const record = "example.com/created"
	return reconciler(of, func(ctx context.Context, c client.Client, key client.ObjectKey) error {
		parent, _ := of.DeepCopyObject().(client.Object)
		err := c.Get(ctx, key, parent)
		if err != nil || !strings.HasSuffix(key.Name, "-tenant") || parent.GetDeletionTimestamp() != nil {
			return client.IgnoreNotFound(err)
		}
		if recordFirst {
			if parent.GetAnnotations()[record] != "" {
				return nil
			}
			parent.SetAnnotations(map[string]string{record: "true"})
			if err := c.Update(ctx, parent); err != nil {
				return err
			}
		}
		child := newChild(key)
		if owned {
			if err := controllerutil.SetControllerReference(parent, child, c.Scheme()); err != nil {
				return err
			}
		}
		//nolint:staticcheck // Apply of a typed object needs generated configurations.
		return c.Patch(ctx, child, client.Apply, client.FieldOwner("operator"), client.ForceOwnership)
	})
}

// copierOptions are the properties of a copier. Without a finalizer, it deletes no copies. With createOnly, it never updates
// them.
type copierOptions struct{ finalizer, createOnly bool }

// copier copies each letter to another namespace.
func copier(namespaceOf func(string) string, how copierOptions) testkit.SetupFunc {
	const cleanup = "example.com/copies"
	return reconciler(&corev1.ConfigMap{}, func(ctx context.Context, c client.Client, key client.ObjectKey) error {
		if home, isCopy := strings.CutPrefix(key.Name, "copy-of-"); isCopy {
			key = client.ObjectKey{Namespace: home, Name: "letter"}
		}
		var letter corev1.ConfigMap
		if err := c.Get(ctx, key, &letter); err != nil || key.Name != "letter" {
			return client.IgnoreNotFound(err)
		}
		theCopy := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(key.Namespace), Name: "copy-of-" + key.Namespace},
		}
		if letter.DeletionTimestamp != nil {
			if err := client.IgnoreNotFound(c.Delete(ctx, theCopy)); err != nil {
				return err
			}
			controllerutil.RemoveFinalizer(&letter, cleanup)
			return client.IgnoreNotFound(c.Update(ctx, &letter))
		}
		if how.finalizer && controllerutil.AddFinalizer(&letter, cleanup) {
			if err := c.Update(ctx, &letter); err != nil {
				return err
			}
		}
		_, err := controllerutil.CreateOrUpdate(ctx, c, theCopy, func() error {
			if theCopy.UID == "" || !how.createOnly {
				theCopy.Data = letter.Data
			}
			return nil
		})
		return err
	})
}

func copies(namespace string) string { return namespace + "-copies" }

func toDefault(string) string { return "default" }

func createTenant(k *testkit.K) {
	k.Apply(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-tenant"}, Value: 1})
}

func createNamespacedTenant(k *testkit.K) {
	k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-tenant"}})
}

func createCopies(k *testkit.K) {
	k.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-copies"}})
}

func writeLetter(k *testkit.K) {
	k.Apply(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "letter"}, Data: map[string]string{"text": "hello"}})
}

// explored runs the exploration of an operator that watches all namespaces, with the given faults.
func explored(t *testing.T, op testkit.SetupFunc, setup, step func(*testkit.K), faults ...string) *report.Report {
	t.Helper()
	cfg, err := testkit.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, err := explore.New(t.Context(), cfg, explore.Options{
		Opener: kitadapter.Open, Setup: kitadapter.Action(setup), Steps: []explore.Step{kitadapter.Step("create", step)},
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(op, append(opts, testkit.ClusterWide())...)
		}),
		Faults: faults, Timeout: 10 * time.Second, Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r, err := x.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func textOf(t *testing.T, r *report.Report) string {
	t.Helper()
	var b strings.Builder
	if err := report.WriteText(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The operators of parallel runs do not see the objects of other runs, and correct operators pass.
func TestCorrectOperators(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		op          testkit.SetupFunc
		setup, step func(*testkit.K)
		want        string // a plan that is tried
	}{
		"Tenants": {tenants(false, true), nil, createTenant, "drift-deleted/namespaces/$NAMESPACE-tenant"},
		"Copier": {
			copier(copies, copierOptions{finalizer: true}), createCopies, writeLetter,
			"crash-after/create-configmaps-$NAMESPACE-copies:copy-of-$NAMESPACE#1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := explored(t, test.op, test.setup, test.step, "crash", "error", "drift", "down", "lost-answer")
			if failures := r.Failures(); len(failures) > 0 {
				t.Errorf("%d runs failed:\n%s", len(failures), textOf(t, r))
			}
			tried := false
			for _, run := range r.Runs {
				tried = tried || run.Name == test.want && run.Outcome == report.Passed
			}
			if !tried {
				t.Errorf("plan %s was not tried:\n%s", test.want, textOf(t, r))
			}
		})
	}
}

// Mistakes outside of the first namespace of a run are found.
func TestMutants(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		op          testkit.SetupFunc
		setup, step func(*testkit.K)
		want        []string // plan: message
	}{
		"RecordFirst": {tenants(true, true), nil, createTenant, []string{
			"crash-after/update-priorityclasses-$NAMESPACE-tenant#1: end-state",
			"error-500/apply-namespaces-$NAMESPACE-tenant#1: end-state",
			"drift-deleted/namespaces/$NAMESPACE-tenant: end-state",
		}},
		"NamespacedRecordFirst": {makers(&corev1.ConfigMap{}, newRoster, true, true), nil, createNamespacedTenant, []string{
			"crash-after/update-configmaps-$NAMESPACE-tenant#1: end-state",
			"error-500/apply-configmaps-roster#1: end-state",
			"drift-deleted/configmaps/roster: end-state",
		}},
		"NamespaceLeft": {tenants(false, false), nil, createTenant, []string{"none/1: residue"}},
		"NamespaceLeftByNamespaced": {
			makers(&corev1.ConfigMap{}, newNamespace, false, false), nil, createNamespacedTenant, []string{"none/1: residue"},
		},
		"CopyLeft": {copier(copies, copierOptions{}), createCopies, writeLetter, []string{"none/1: residue"}},
		"Outside":  {copier(toDefault, copierOptions{finalizer: true}), nil, writeLetter, []string{"none/1: outside"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := explored(t, test.op, test.setup, test.step, "crash-after", "error-500", "drift-deleted")
			found := map[string]bool{}
			for _, run := range r.Failures() {
				for _, v := range run.Violations {
					found[run.Name+": "+v.Oracle] = true
				}
			}
			for _, want := range test.want {
				if !found[want] {
					t.Errorf("found %v, want %s:\n%s", found, want, textOf(t, r))
				}
			}
		})
	}
}
