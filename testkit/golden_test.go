package testkit_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
)

// setupTwins is an operator that creates two ConfigMaps per Widget, one with a generated name, and sets a status.
func setupTwins(mgr manager.Manager) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).For(newWidget("")).Complete(reconcile.Func(
		func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			w := newWidget("")
			if err := c.Get(ctx, req.NamespacedName, w); err != nil || w.Object["status"] != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			first := newConfigMap(req.Name)
			first.Data = map[string]string{"made": time.Now().Format(time.RFC3339), "where": req.Namespace}
			second := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: req.Name + "-"}}
			for _, child := range []*corev1.ConfigMap{second, first} {
				child.Namespace = req.Namespace
				if err := ctrl.SetControllerReference(w, child, c.Scheme()); err != nil {
					return reconcile.Result{}, err
				}
				if child == first {
					first.Data["other"], first.Data["otherUID"] = second.Name, string(second.UID)
				}
				if err := c.Create(ctx, child); err != nil {
					return reconcile.Result{}, fmt.Errorf("making a child: %w", err)
				}
			}
			before := w.DeepCopy()
			if err := setReady(w); err != nil {
				return reconcile.Result{}, err
			}
			return reconcile.Result{}, c.Status().Patch(ctx, w, client.MergeFrom(before))
		}))
}

func TestGolden(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Start(setupTwins)
	k.Apply(newConfigMap("not-the-operators"))
	w := k.Apply(newWidget("orders"))
	k.Golden("testdata/golden/orders.yaml") // it waits by itself
	k.Eventually(w, testkit.Ready())
	k.Golden("testdata/golden/orders-widget.yaml", w)
	k.Golden("testdata/golden/orders-child.yaml", newConfigMap("orders"))
}

// goldenFile is the file that TestFailingGolden compares with.
const goldenFile = "TESTKIT_TEST_GOLDEN_FILE"

func TestFailingGolden(t *testing.T) {
	onlyToFail(t)
	k := testkit.New(t)
	k.Start(setupTwins)
	k.Apply(newWidget("orders"))
	k.Golden(os.Getenv(goldenFile))
}

func TestGoldenUpdateAndCompare(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "new", "orders.yaml")
	args := []string{"-test.run=TestFailingGolden"}
	env := []string{meantToFail + "=1", goldenFile + "=" + file}
	out, err := rerunWith(t, args, env...)
	if err == nil {
		t.Error("it passes without a file")
	}
	contains(t, out, "there is no such file; write it with", "go test -run '^TestFailingGolden$' -count 1",
		"github.com/homeostat-dev/homeostat/testkit -update")

	if out, err := rerunWith(t, append(args, "-update"), env...); err != nil {
		t.Fatalf("writing it: %v\n%s", err, out)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	checkedIn, err := os.ReadFile("testdata/golden/orders.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(checkedIn), string(written)); diff != "" {
		t.Errorf("another run writes another file (-checked in +written):\n%s", diff)
	}
	if out, err := rerunWith(t, args, env...); err != nil {
		t.Errorf("comparing with what was just written: %v\n%s", err, out)
	}

	wrong := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: orders}\ndata: {made: never}\n")
	if err := os.WriteFile(file, wrong, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = rerunWith(t, args, env...)
	if err == nil {
		t.Error("it passes with another file")
	}
	contains(t, out, "(-want +got)", `"never"`, `"$TIME"`, "Widget orders", "If that is right, write it with", "-update")
}
