package explore_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// Each of these bugs is found by the plan that is made for it, and the correct twin passes the same plan. All mutants, and
// all plans, are for make mutants.
func TestFindsTheBugAndNotItsTwin(t *testing.T) {
	t.Parallel()
	for mutant, test := range map[string]struct {
		reason string
		plan   string // the only one that is tried beside the fault-free runs
		want   string // an oracle
	}{
		"hot-loop/last-sync-time": {"it never comes to rest, whatever is tried", "none", "writes-at-rest"},
		"missed-state/on-delete":  {"a deletion that nobody saw", "down@deletion", "end-state"},
		"drift/no-owns":           {"a child that somebody changed", "drift-edited/configmaps/home", "end-state"},
		"drift/clobber":           {"somebody else's annotation is gone", "conflict/update-configmaps-home#1", "lost-update"},
		"drift/swallowed-error":   {"an error that is not retried", "error-500/update-configmaps-home#1", "end-state"},
		"rbac/no-status":          {"a right that is missing", "none", "forbidden"},
	} {
		t.Run(mutant, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && test.plan != "none" && mutant != "drift/clobber" {
				t.Skip("a mutant that is found by what it leaves undone takes as long as an operator may take")
			}
			class, _, _ := strings.Cut(mutant, "/")
			only := func(plan string) bool { return plan == test.plan }
			o := of(t, mutant)
			o.Only = only
			bad := run(t, o)
			if got := found(bad); !slices.ContainsFunc(got, func(f string) bool { return strings.HasSuffix(f, ": "+test.want) }) {
				t.Errorf("%s: found %v, want %s", test.reason, got, test.want)
			}
			o = of(t, class+"/correct")
			o.Only = only
			good := run(t, o)
			if got := found(good); len(got) > 0 {
				t.Errorf("the twin is correct, and this was found: %v\n%s", got, text(t, good))
			}
			for _, run := range good.Runs {
				if run.Outcome == report.Untried {
					t.Errorf("%s was not tried: %s", run.Name, run.Why)
				}
			}
		})
	}
}
