package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// register is an external service. A PUT sets an entry to 1, a POST adds 1, and a DELETE removes the entry.
type register struct {
	mu      sync.Mutex
	entries map[string]int
}

func (r *register) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch req.Method {
	case http.MethodPut:
		r.entries[req.URL.Path] = 1
	case http.MethodPost:
		r.entries[req.URL.Path]++
	case http.MethodDelete:
		delete(r.entries, req.URL.Path)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (r *register) state() any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.entries)
}

// registrar enters each letter with the method, once, and removes the entry when the letter is deleted.
func registrar(url, method string) testkit.SetupFunc {
	call := func(ctx context.Context, method, name string) error {
		req, err := http.NewRequestWithContext(ctx, method, url+"/"+name, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil && resp.StatusCode != http.StatusNoContent {
			err = errors.New(resp.Status)
		}
		if resp != nil {
			_ = resp.Body.Close()
		}
		return err
	}
	return func(mgr manager.Manager) error {
		c := mgr.GetClient()
		return ctrl.NewControllerManagedBy(mgr).Named("registrar").For(&corev1.ConfigMap{}).Complete(reconcile.Func(
			func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
				var letter corev1.ConfigMap
				if err := c.Get(ctx, req.NamespacedName, &letter); err != nil || letter.Name != "letter" {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				const finalizer, entered = "chaos.test/entry", "chaos.test/entered"
				switch {
				case !letter.DeletionTimestamp.IsZero():
					if err := call(ctx, http.MethodDelete, letter.Name); err != nil {
						return reconcile.Result{}, err
					}
					if !controllerutil.RemoveFinalizer(&letter, finalizer) {
						return reconcile.Result{}, nil
					}
				case controllerutil.AddFinalizer(&letter, finalizer):
				case letter.Annotations[entered] != "":
					return reconcile.Result{}, nil
				default:
					if err := call(ctx, method, letter.Name); err != nil {
						return reconcile.Result{}, err
					}
					letter.Annotations = map[string]string{entered: "true"}
				}
				return reconcile.Result{}, client.IgnoreNotFound(c.Update(ctx, &letter))
			}))
	}
}

// registering returns an operator with a register of each run.
func registering(method string) testkit.Runnable {
	return chaos.Each(func(k *testkit.K) testkit.Runnable {
		r := &register{entries: map[string]int{}}
		return chaos.FromSetup(registrar(k.External(r, r.state).URL, method))
	})
}

// An operator that uses an external service is swept with the faults of the service. Checks and AfterRun run in each run.
func TestSweepExternal(t *testing.T) {
	t.Parallel()
	var checked, ended atomic.Int64
	t.Cleanup(func() {
		if ended.Load() < 10 || checked.Load() < 2*ended.Load() {
			t.Errorf("%d runs ended with %d checks, want some more runs and at least 2 checks in each", ended.Load(), checked.Load())
		}
	})
	chaos.Sweep(t, registering(http.MethodPut), chaos.Scenario{writing("hello")}, chaos.Faults{chaos.External, chaos.Crash},
		chaos.Check("the letter exists", func(*testkit.K) string {
			checked.Add(1)
			return ""
		}),
		chaos.AfterRun(func(k *testkit.K) {
			ended.Add(1)
			k.Eventually(configMap("letter", "text", ""), testkit.Gone())
		}))
}

// An operator that never removes an entry is found by the runs without a fault.
func TestSweepFindsExternalResidue(t *testing.T) {
	t.Parallel()
	const variable = "TESTKIT_CHAOS_EXTERNAL_RESIDUE"
	allowed := chaos.AllowResidue("external")
	switch os.Getenv(variable) {
	case "":
	case "reported":
		allowed = chaos.AllowResidue()
		fallthrough
	default:
		chaos.Sweep(t, chaos.Each(func(k *testkit.K) testkit.Runnable {
			r := &register{entries: map[string]int{}}
			keeping := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.Method == http.MethodDelete {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				r.ServeHTTP(w, req)
			})
			return chaos.FromSetup(registrar(k.External(keeping, r.state).URL, http.MethodPut))
		}), chaos.Scenario{writing("hello")}, chaos.Faults{chaos.Down}, chaos.Timeout(5*time.Second), allowed)
		return
	}
	for outcome, want := range map[string]string{
		"reported": `external service 1 has entries after the custom resources were deleted`,
		"allowed":  "--- PASS: TestSweepFindsExternalResidue",
	} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			sweepInChild(t, "TestSweepFindsExternalResidue", variable+"="+outcome, outcome == "allowed", want)
		})
	}
}

// sweepInChild runs a test in a process of its own, and checks whether it passes and that its output has a text.
func sweepInChild(t *testing.T, test, variable string, passes bool, want string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^"+test+"$")
	cmd.Env = append(os.Environ(), variable)
	out, err := cmd.CombinedOutput()
	if passes != (err == nil) {
		t.Errorf("the process ended with %v", err)
	}
	if !strings.Contains(string(out), want) {
		t.Errorf("the output lacks %q:\n%s", want, out)
	}
}

// An operator that enters a letter twice is found by a lost answer and by a crash, and a check that fails is reported. The
// sweeps run in a child process, and the test checks their output.
func TestSweepFindsRepeatedRegistration(t *testing.T) {
	t.Parallel()
	const variable = "TESTKIT_CHAOS_REGISTRATION"
	if plan := os.Getenv(variable); plan != "" {
		chaos.Sweep(t, registering(http.MethodPost), chaos.Scenario{writing("hello")},
			chaos.Faults{chaos.External, "crash-after"}, chaos.Timeout(8*time.Second),
			chaos.Check("few letters", func(k *testkit.K) string {
				if plan == "check" {
					return "the check fails in " + k.Namespace
				}
				return ""
			}))
		return
	}
	for plan, want := range map[string][]string{
		"external-lost":    {"end-state: after step", "the answer of the external service is lost", "letter: 2"},
		"crash-after":      {"end-state: after step", "POST /letter to the external service", "letter: 2"},
		"external-refused": {"--- PASS: TestSweepFindsRepeatedRegistration/external-refused/external-post-letter#1"},
		"external-slow":    {"--- PASS: TestSweepFindsRepeatedRegistration/external-slow/external-post-letter#1"},
		"check":            {`never: after step "write hello" few letters: the check fails in`},
	} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			pattern := fmt.Sprintf("^TestSweepFindsRepeatedRegistration$/^%s$/external-post", plan)
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", pattern)
			cmd.Env = append(os.Environ(), variable+"="+plan)
			out, err := cmd.CombinedOutput()
			if passes := strings.HasPrefix(want[0], "--- PASS"); passes != (err == nil) {
				t.Errorf("the process ended with %v", err)
			}
			for _, text := range want {
				if !strings.Contains(string(out), text) {
					t.Errorf("the output lacks %q:\n%s", text, out)
				}
			}
		})
	}
}
