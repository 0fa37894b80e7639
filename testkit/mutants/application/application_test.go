// Package application_test explores operators whose pods break, on simulated nodes.
package application_test

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{
		FS: mutants.Files, CRDs: mutants.CRDs, RBAC: mutants.RBAC, AddToScheme: mutants.AddToScheme, Workloads: true,
	})
}

// faults has a fault that finds each mutant, whether the operator sees the pod between a restart and Ready or not.
var faults = map[string]string{
	"pods/degraded-stays":  "application-killed",
	"pods/two-leaders":     "application-unreachable",
	"pods/joins-once":      "application-paused",
	"pods/gives-up-on-oom": "application-oom",
	"pods/ready-once":      "application-paused",
	"pods/deletion-unseen": "application-evicted",

	"availability/notice-stays":   "application-lost",
	"availability/scales-up":      "application-paused",
	"availability/rolls-back":     "application-unreachable",
	"availability/exists-is-good": "application-paused",
}

// Each mutant is found by a fault of the application, and its twin passes all of them.
func TestApplicationFaults(t *testing.T) {
	t.Parallel()
	for _, m := range mutants.Application() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			r := exploreFaults(t, m)
			failures := r.Failures()
			for _, run := range failures {
				t.Logf("%s: %s", run.Name, run.Violations[0].Oracle+": "+run.Violations[0].Message)
			}
			switch {
			case m.IsCorrect() && len(failures) > 0:
				var text strings.Builder
				if err := report.WriteText(&text, r); err != nil {
					t.Fatal(err)
				}
				t.Errorf("a correct operator fails:\n%s", text.String())
			case m.IsCorrect():
				checkTried(t, r)
			case len(failures) == 0:
				t.Errorf("nothing is found: %s", m.Description)
			}
		})
	}
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
		StopAtFailure: !m.IsCorrect(),
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

// checkTried fails if a fault was not tried.
func checkTried(t *testing.T, r *report.Report) {
	t.Helper()
	tried := map[string]int{}
	for _, run := range r.Runs {
		if run.Outcome == report.Passed {
			tried[run.Fault]++
		} else {
			t.Errorf("%s was not tried: %v", run.Name, run)
		}
	}
	for _, f := range explore.Faults() {
		if strings.HasPrefix(f, "application-") && tried[f] == 0 {
			t.Errorf("fault %s was not tried", f)
		}
	}
	t.Logf("tried: %v", tried)
}
