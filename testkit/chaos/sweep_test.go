package chaos_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

func TestMain(m *testing.M) {
	if typed := os.Getenv(typedVersions); typed != "" {
		testkit.Main(m, teamEnv(typed))
	}
	testkit.Main(m, testkit.Env{})
}

// sealer is an operator without a custom resource: it creates a Secret for each ConfigMap except "key". A blind sealer
// does not watch Secrets. Each reconcile takes the given time.
func sealer(blind bool, takes time.Duration) testkit.SetupFunc {
	return func(mgr manager.Manager) error {
		c := mgr.GetClient()
		b := ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{})
		if !blind {
			b = b.Owns(&corev1.Secret{})
		}
		return b.Complete(reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			<-time.After(takes)
			var letter, key corev1.ConfigMap
			if err := c.Get(ctx, req.NamespacedName, &letter); err != nil || letter.Name == "key" {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			if err := c.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: "key"}, &key); err != nil {
				return reconcile.Result{}, err
			}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: "sealed-" + req.Name}}
			_, err := controllerutil.CreateOrUpdate(ctx, c, secret, func() error {
				if secret.UID != "" && !metav1.IsControlledBy(secret, &letter) {
					return errors.New("Secret " + secret.Name + " belongs to another owner")
				}
				secret.Data = map[string][]byte{"text": []byte(key.Data["key"] + letter.Data["text"])}
				return controllerutil.SetControllerReference(&letter, secret, mgr.GetScheme())
			})
			return reconcile.Result{}, err
		}))
	}
}

func configMap(name, key, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{key: value}}
}

func writing(text string) chaos.Step {
	return chaos.Step{Name: "write " + text, Do: func(k *testkit.K) { k.Apply(configMap("letter", "text", text)) }}
}

func key(k *testkit.K) { k.Apply(configMap("key", "key", "k")) }

// A function that registers controllers is swept with all faults, without a custom resource.
func TestSweepSetupFunction(t *testing.T) {
	t.Parallel()
	var started atomic.Int64
	scenario := chaos.Scenario{writing("hello"), writing("goodbye"), {Name: "read", Do: func(k *testkit.K) {
		k.Eventually(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "sealed-letter"}}, testkit.Exists())
	}}}
	chaos.Sweep(t, chaos.FromSetup(sealer(false, 0)), scenario, chaos.All,
		chaos.BeforeRun(key), // required by the Secret
		chaos.WithStartOptions(testkit.WithManagerOptions(func(*manager.Options) { started.Add(1) })),
		chaos.Invariant("an empty Secret", func(objects []client.Object) string {
			for _, o := range objects {
				if s, ok := o.(*corev1.Secret); ok && len(s.Data) == 0 {
					return s.Name + " is empty"
				}
			}
			return ""
		}),
	)
	if started.Load() < 3 {
		t.Errorf("the operator was started %d times with the options, want once in each run", started.Load())
	}
}

// The sweep fails on purpose in a child process, and the test checks its output.
func TestFailingSweep(t *testing.T) {
	t.Parallel()
	const fails = "TESTKIT_CHAOS_FAILING_SWEEP"
	scenario := chaos.Scenario{writing("hello")}
	options := map[string][]chaos.Option{
		"never": {chaos.BeforeRun(key), chaos.Invariant("a hello that can be read", func(objects []client.Object) string {
			for _, o := range objects {
				if cm, ok := o.(*corev1.ConfigMap); ok && cm.Data["text"] == "hello" {
					return "ConfigMap " + cm.Name
				}
			}
			return ""
		})},
		"without": {
			chaos.BeforeRun(key), chaos.WithoutOracles("not what this is about", "end-state"), chaos.Timeout(9 * time.Second),
		},
		"drift": {chaos.BeforeRun(key), chaos.Timeout(10 * time.Second)}, // a timeout finds it
	}
	if what := os.Getenv(fails); what != "" {
		// With end-state off, nothing shows that a slow operator is done.
		takes := map[string]time.Duration{"without": 200 * time.Millisecond}
		if what == "drift" { // two plans fail for the same cause
			scenario[0].Do = func(k *testkit.K) {
				k.Apply(configMap("letter", "text", "hello"))
				k.Apply(configMap("memo", "text", "buy milk"))
			}
		}
		op := chaos.FromSetup(sealer(what != "never", takes[what]))
		chaos.Sweep(t, op, scenario, chaos.Faults{"drift-deleted"}, options[what]...)
		return
	}
	for what, want := range map[string][]string{
		"never":   {"--- FAIL: TestFailingSweep", "never: a hello that can be read: ConfigMap letter"},
		"without": {"--- PASS: TestFailingSweep/drift-deleted/secrets/sealed-letter", "PASS"},
		"drift": {
			"--- FAIL: TestFailingSweep/drift-deleted/secrets/sealed-letter", "end-state:",
			"secrets/sealed-letter was deleted by hand", "The cause is that of drift-deleted/secrets/sealed-",
			"finding 1 of 1, in 2 runs: end-state: ", "\n    drift-deleted/secrets/sealed-memo",
			`go test -run '^TestFailingSweep$/^drift-deleted$/^secrets$/^sealed-letter$' .`,
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestFailingSweep$")
			cmd.Env = append(os.Environ(), fails+"="+what)
			out, err := cmd.CombinedOutput()
			if failed := err != nil; failed != (what != "without") {
				t.Errorf("the process ended with %v", err)
			}
			if strings.Contains(string(out), "1 run: ") {
				t.Errorf("each failure has a summary of its own:\n%s", out)
			}
			for _, line := range want {
				if indented := strings.ReplaceAll(string(out), "\n        ", "\n"); !strings.Contains(indented, line) {
					t.Errorf("the output lacks %q:\n%s", line, out)
				}
			}
		})
	}
}
