package explore_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// Each of the faults delays events, also at the first step, at which the operator opens its watches. A correct operator
// withstands them.
func TestLag(t *testing.T) {
	t.Parallel()
	const buggy = "stale-pass/next-number"
	plans := map[string]string{ // the operator that fails
		"lag/configmaps@create":                    "",
		"lag/configmaps@scale-up":                  buggy,
		"lag-long/configmaps@scale-up":             buggy,
		"lag-deleted/configmaps@scale-up":          "",
		"lag/batches.mutants.homeostat.dev@create": "",
	}
	for _, name := range []string{"stale-pass/correct", buggy} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := mutantOptions(t, name)
			o.StopAtFailure = false
			o.SelectPlan = func(plan string) bool {
				fails, ok := plans[plan]
				return ok && (name != buggy || fails == buggy)
			}
			r := run(t, o)
			var tried []string
			for _, run := range r.Runs {
				tried = append(tried, run.Name)
				want := report.Passed
				if plans[run.Name] == name {
					want = report.Failed
				}
				if run.Outcome != want {
					t.Errorf("%s is %s %s, want %s\n%s", run.Name, run.Outcome, run.UntriedReason, want, text(t, r))
				}
			}
			for plan := range plans {
				if o.SelectPlan(plan) && !slices.Contains(tried, plan) {
					t.Errorf("there is no plan %s, only %s", plan, strings.Join(tried, ", "))
				}
			}
		})
	}
}
