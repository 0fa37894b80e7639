// Package application_test explores operators whose pods break, on simulated nodes or, with TESTKIT_NODES=1, on real ones.
package application_test

import (
	"cmp"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
)

// onRealNodes selects real nodes.
var onRealNodes = os.Getenv("TESTKIT_NODES") == "1"

func TestMain(m *testing.M) {
	env := testkit.Env{
		FS: mutants.Files, CRDs: mutants.CRDs, RBAC: mutants.RBAC, AddToScheme: mutants.AddToScheme, Workloads: true,
	}
	if onRealNodes {
		env.Workloads = false
		env.Private = true // faults stop its nodes
		env.Real = &testkit.RealNodes{Lease: 10 * time.Second, RestartBackoff: time.Second}
	}
	testkit.Main(m, env)
}

// images are those of the operators' pods.
var images = []string{"member:1", "other:1", "site:0", "site:1", "site:2", "portal:1"}

// faults has a fault that finds each mutant, whether the operator sees the pod between a restart and Ready or not.
var faults = map[string]string{
	"pods/degraded-stays":  "application-killed",
	"pods/two-leaders":     "application-unreachable",
	"pods/joins-once":      "application-paused",
	"pods/gives-up-on-oom": "application-oom",
	"pods/ready-once":      "application-paused",
	"pods/creates-once":    "application-evicted",

	"availability/notice-stays":   "application-lost",
	"availability/scales-up":      "application-paused",
	"availability/rolls-back":     "application-unreachable",
	"availability/exists-is-good": "application-paused",
	"availability/counts-failed":  "application-disk-full",
	"availability/failed-once":    "application-disk-full",

	"partition/ready-once": onlyReal,
}

const (
	// onlySimulated is untried on real nodes, whose kubelets choose the pods that they evict.
	onlySimulated = "application-disk-full"
	// onlyReal is untried on simulated nodes, which have no packets.
	onlyReal = "application-partitioned"
)

// partitionClass is the only class with a pod that needs another one.
const partitionClass = "partition"

// Each mutant is found by a fault of the application, and its twin passes all of them.
func TestApplicationFaults(t *testing.T) {
	t.Parallel()
	if onRealNodes {
		k := testkit.New(t)
		for _, image := range images {
			k.LoadPackage(image, "github.com/homeostat-dev/homeostat/testkit/cmd/web")
		}
	}
	for _, m := range mutants.Application() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			if onRealNodes && faults[m.Name] == onlySimulated {
				t.Skipf("%s is untried on real nodes", onlySimulated)
			}
			if !onRealNodes && m.Class == partitionClass {
				t.Skipf("%s is untried on simulated nodes: TESTKIT_NODES=1 selects real ones", onlyReal)
			}
			r := exploreFaults(t, m)
			failures := r.Failures()
			for _, run := range failures {
				t.Logf("%s: %s", run.Name, run.Violations[0].Oracle+": "+run.Violations[0].Message)
			}
			switch {
			case m.IsCorrect() && len(failures) > 0:
				t.Errorf("a correct operator fails:\n%s", textOf(t, r))
			case m.IsCorrect():
				checkTried(t, m, r)
			case len(failures) == 0:
				t.Errorf("nothing is found: %s\n%s", m.Description, textOf(t, r))
			}
		})
	}
}

func textOf(t *testing.T, r *report.Report) string {
	t.Helper()
	var text strings.Builder
	if err := report.WriteText(&text, r); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// exploreFaults tries the faults of the application.
func exploreFaults(t *testing.T, m mutants.Mutant) *report.Report {
	t.Helper()
	cfg, err := testkit.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var steps []explore.Step
	for _, s := range m.Steps {
		steps = append(steps, kitadapter.Step(s.Name, s.Do))
	}
	x, err := explore.New(t.Context(), cfg, explore.Options{
		Name: m.Name, Faults: []string{cmp.Or(faults[m.Name], "application")}, Opener: kitadapter.Open, Steps: steps, Seed: 1,
		StopAtFailure: !m.IsCorrect(), Timeout: timeout(),
		Subject: kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
			return k.Start(m.Setup, append(opts, testkit.WithConfig(k.ServiceAccount(m.ServiceAccount)))...)
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	r, err := x.Run(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// timeout is longer for real nodes, which take seconds to start.
func timeout() time.Duration {
	if onRealNodes {
		return 2 * time.Minute
	}
	return testkit.DefaultTimeout
}

// untriedReason returns the reason why a fault is untried in all runs of an operator here, or "".
func untriedReason(m mutants.Mutant, fault string) string {
	switch {
	case fault == onlySimulated && onRealNodes:
		return "kubelet chooses the pods"
	case fault == onlyReal && !onRealNodes:
		return "simulated nodes have no packets"
	case fault == onlyReal && m.Class != partitionClass:
		return "no pod of the run became not Ready within "
	default:
		return ""
	}
}

// checkTried fails if a fault was not tried, or if one was tried that shows nothing of the operator.
func checkTried(t *testing.T, m mutants.Mutant, r *report.Report) {
	t.Helper()
	tried := map[string]int{}
	for _, run := range r.Runs {
		reason := untriedReason(m, run.Fault)
		switch {
		case run.Outcome == report.Passed && reason == "":
			tried[run.Fault]++
		case run.Outcome == report.Untried && reason != "" && strings.Contains(run.UntriedReason, reason):
		default:
			t.Errorf("%s is %s (%s), want an untried run only for this reason: %q", run.Name, run.Outcome, run.UntriedReason, reason)
		}
	}
	for _, f := range explore.Faults() {
		if strings.HasPrefix(f, "application-") && tried[f] == 0 && untriedReason(m, f) == "" {
			t.Errorf("fault %s was not tried", f)
		}
	}
	t.Logf("tried: %v", tried)
}
