package chaos_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// reconciling returns an operator that calls a function for each object of a kind.
func reconciling(
	of client.Object, f func(ctx context.Context, c client.Client, key client.ObjectKey) error,
) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		return ctrl.NewControllerManagedBy(mgr).Named("outside").For(of).Complete(reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{}, f(ctx, mgr.GetClient(), req.NamespacedName)
			}))
	}
}

// copyElsewhere copies each ConfigMap to a second namespace.
func copyElsewhere(ctx context.Context, c client.Client, key client.ObjectKey) error {
	var original corev1.ConfigMap
	if err := c.Get(ctx, key, &original); err != nil || original.Name != "letter" {
		return client.IgnoreNotFound(err)
	}
	theCopy := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace + "-copies", Name: key.Name}, Data: original.Data,
	}
	if err := c.Create(ctx, theCopy); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

func secondNamespace(k *testkit.K) {
	k.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-copies"}})
}

// createNamespace creates a Namespace for each cluster-scoped object of a run, by server-side apply.
func createNamespace(ctx context.Context, c client.Client, key client.ObjectKey) error {
	if !strings.HasPrefix(key.Name, "outside-") {
		return nil
	}
	var class schedulingv1.PriorityClass
	if err := c.Get(ctx, key, &class); err != nil || class.DeletionTimestamp != nil {
		return client.IgnoreNotFound(err)
	}
	ns := &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: key.Name},
	}
	//nolint:staticcheck // Apply of a typed object needs generated configurations.
	return c.Patch(ctx, ns, client.Apply, client.FieldOwner("outside"), client.ForceOwnership)
}

func highPriority(k *testkit.K) {
	k.Apply(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "outside-" + k.Namespace}, Value: 1})
}

// A sweep of an operator whose work it cannot observe fails. The sweeps run in a child process, and the test checks the
// output.
func TestSweepThatObservesNothing(t *testing.T) {
	t.Parallel()
	const which = "TESTKIT_CHAOS_OUTSIDE"
	nothing := func(context.Context, client.Client, client.ObjectKey) error { return nil }
	for name, test := range map[string]struct {
		op      testkit.SetupFunc
		step    chaos.Step
		options []chaos.Option
		want    []string
	}{
		"idle": {
			op: reconciling(&corev1.ConfigMap{}, nothing), step: writing("hello"),
			want: []string{"nothing is tried: the operator changed no object in the runs without a fault"},
		},
		"namespace": {
			op: reconciling(&corev1.ConfigMap{}, copyElsewhere), step: writing("hello"),
			options: []chaos.Option{chaos.BeforeRun(secondNamespace)},
			want: []string{
				"outside: the operator writes configmaps/letter, which is in namespace ", "-copies: it is not observed",
			},
		},
		"cluster": {
			op:      reconciling(&schedulingv1.PriorityClass{}, createNamespace),
			step:    chaos.Step{Name: "create", Do: highPriority},
			options: []chaos.Option{chaos.WithStartOptions(testkit.ClusterWide())},
			want: []string{
				"outside: the scenario creates priorityclasses.scheduling.k8s.io/outside-",
				"outside: the operator writes namespaces/outside-", "which is cluster-scoped",
				"residue: Namespace outside-",
			},
		},
	} {
		if os.Getenv(which) != "" {
			if os.Getenv(which) == name {
				chaos.Sweep(t, chaos.FromSetup(test.op), chaos.Scenario{test.step}, chaos.All, test.options...)
			}
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestSweepThatObservesNothing$")
			cmd.Env = append(os.Environ(), which+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Error("the sweep passes")
			}
			for _, line := range test.want {
				if !strings.Contains(string(out), line) {
					t.Errorf("the output lacks %q:\n%s", line, out)
				}
			}
		})
	}
}
