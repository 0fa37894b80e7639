package chaos_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// copier is an operator that copies each letter to another namespace. It does nothing if the namespace is "".
func copier(namespace string) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		c := mgr.GetClient()
		return ctrl.NewControllerManagedBy(mgr).Named("copier").For(&corev1.ConfigMap{}).Complete(reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				var letter corev1.ConfigMap
				if err := c.Get(ctx, req.NamespacedName, &letter); err != nil || letter.Name != "letter" || namespace == "" {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				err := c.Create(ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "copy-of-" + req.Namespace}, Data: letter.Data,
				})
				if apierrors.IsAlreadyExists(err) {
					err = nil
				}
				return reconcile.Result{}, err
			}))
	}
}

// A sweep of an operator whose work it cannot observe fails. The sweeps run in a child process, and the test checks the
// output.
func TestSweepThatObservesNothing(t *testing.T) {
	t.Parallel()
	const sweeps, elsewhere = "TESTKIT_CHAOS_OUTSIDE", "TESTKIT_CHAOS_ELSEWHERE"
	if os.Getenv(sweeps) != "" {
		chaos.Sweep(t, chaos.FromSetup(copier(os.Getenv(elsewhere))), chaos.Scenario{writing("hello")}, chaos.All)
		return
	}
	k := testkit.New(t) // its namespace belongs to no run
	for name, test := range map[string]struct{ elsewhere, want string }{
		"Nothing": {"", "nothing is tried: the operator changed no object in the runs without a fault"},
		"Outside": {k.Namespace, "which is in namespace " + k.Namespace + ": it is not observed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestSweepThatObservesNothing$")
			cmd.Env = append(os.Environ(), sweeps+"=1", elsewhere+"="+test.elsewhere)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), test.want) {
				t.Errorf("the sweep ends with %v, and the output lacks %q:\n%s", err, test.want, out)
			}
		})
	}
}
