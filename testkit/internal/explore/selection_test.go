package explore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// The report has the plans that were not tried, with the reason.
func TestSelection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		selection explore.Selection
		runs      int // besides the baseline
		reason    string
	}{
		"List":   {explore.Selection{OnlyList: true}, 0, "only a list was requested"},
		"Sample": {explore.Selection{MaxPlans: 2}, 2, "only a sample of 2 was requested"},
		"Budget": {explore.Selection{Budget: time.Nanosecond}, 0, "the time of 1ns was over"},
		"All":    {explore.Selection{Budget: time.Hour}, 6, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := mutantOptions(t, "drift/correct")
			o.Faults = []string{"crash-before", "error-500"}
			o.Selection = test.selection
			o.Timelines = true
			planned, learned := -1, 0
			o.Planned = func(plans int) { planned = plans }
			o.Learning = func(report.Run) { learned++ }
			r := run(t, o)
			tried, others := 0, map[string]int{}
			for _, run := range r.Runs {
				if run.Fault != "none" {
					tried++
				}
				if len(run.Timeline) == 0 {
					t.Errorf("%s has no timeline", run.Name)
				}
			}
			for _, s := range r.Skipped {
				others[s.Reason] = len(s.Plans)
			}
			if tried < test.runs || test.runs < 6 && tried != test.runs || learned < 3 || planned < test.runs {
				t.Errorf("%d plans of %d were tried after %d runs, want %d", tried, planned, learned, test.runs)
			}
			if test.reason != "" && others[test.reason] == 0 || test.reason == "" && strings.Contains(text(t, r), "requested") {
				t.Errorf("not tried: %v, want the reason %q", others, test.reason)
			}
		})
	}
}
