package explore_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// A specific plan finds each bug, and the correct twin passes the same plan. `make mutants` runs all mutants with all
// plans.
func TestMutantsFailAndTwinsPass(t *testing.T) {
	t.Parallel()
	slow := []string{"missed-state/on-delete", "drift/no-owns", "drift/swallowed-error"}
	for mutant, test := range map[string]struct {
		reason string
		plan   string // the only plan beside the baseline runs
		want   string // an oracle
	}{
		"hot-loop/last-sync-time": {"it never becomes idle", "none", "writes-at-rest"},
		"missed-state/on-delete":  {"a missed deletion", "down@deletion", "end-state"},
		"drift/no-owns":           {"drift of a child", "drift-edited/configmaps/home", "end-state"},
		"drift/clobber":           {"another manager's annotation is removed", "conflict/update-configmaps-home#1", "lost-update"},
		"drift/swallowed-error":   {"an error that is not retried", "error-500/update-configmaps-home#1", "end-state"},
		"two-faults/token-copy": {
			"a generated value is replaced", "pair-crash-read/update-configmaps-orders-checksum#1", "end-state",
		},
		"injector/label-only": {
			"what the operator added to an object of the user is removed", "drift-input/configmaps/shop", "end-state",
		},
		"rbac/no-status": {"a missing permission", "none", "forbidden"},
	} {
		t.Run(mutant, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && slices.Contains(slow, mutant) {
				t.Skip("this mutant is found by a timeout")
			}
			class, _, _ := strings.Cut(mutant, "/")
			only := func(plan string) bool { return plan == test.plan }
			o := mutantOptions(t, mutant)
			o.SelectPlan = only
			bad := run(t, o)
			wanted := func(f string) bool { return strings.HasSuffix(f, ": "+test.want) }
			if got := violationsOf(bad); !slices.ContainsFunc(got, wanted) {
				t.Errorf("%s: found %v, want %s", test.reason, got, test.want)
			}
			o = mutantOptions(t, class+"/correct")
			o.SelectPlan = only
			good := run(t, o)
			if got := violationsOf(good); len(got) > 0 {
				t.Errorf("violations of the correct twin: %v\n%s", got, text(t, good))
			}
			for _, run := range good.Runs {
				if run.Outcome == report.Untried {
					t.Errorf("%s was not tried: %s", run.Name, run.UntriedReason)
				}
			}
		})
	}
}

// A short exploration injects faults of different steps in one run. It reports a violation under the plan that causes it
// alone.
func TestShortCombinesFaults(t *testing.T) {
	t.Parallel()
	plans := []string{"error-500/create-configmaps-home#1", "conflict/update-configmaps-home#1", "watch-closed@hide"}
	for name, test := range map[string]struct {
		runs   int // after the baseline, with the one that learns the triggers, and a second one of the plan that fails
		failed []string
	}{
		"drift/correct": {2, nil},
		"drift/clobber": {6, []string{"conflict/update-configmaps-home#1: lost-update"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opened atomic.Int32
			o := mutantOptions(t, name)
			o.Short = true
			o.StopAtFailure = false
			o.SelectPlan = func(plan string) bool { return slices.Contains(plans, plan) }
			o.Planned = func(int) { opened.Store(0) }
			o.Opener = func(s *space.Space, transport func(http.RoundTripper) http.RoundTripper) error {
				opened.Add(1)
				return kitadapter.Open(s, transport)
			}
			r := run(t, o)
			if diff := cmp.Diff(test.failed, violationsOf(r)); diff != "" {
				t.Errorf("violations (-want +got):\n%s\n%s", diff, text(t, r))
			}
			tried := map[string]report.Outcome{}
			for _, run := range r.Runs {
				tried[run.Name] = run.Outcome
			}
			for _, plan := range plans {
				if outcome, ok := tried[plan]; !ok || outcome == report.Untried {
					t.Errorf("plan %s was not tried: %v", plan, tried)
				}
			}
			if got := int(opened.Load()); got != test.runs {
				t.Errorf("%d runs after the baseline, want %d", got, test.runs)
			}
		})
	}
}
