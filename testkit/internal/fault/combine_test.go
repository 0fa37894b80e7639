package fault_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	idle := func(fault.Run, int) {}
	for name, test := range map[string]struct {
		reason string
		plans  []*fault.Plan
		want   []string
	}{
		"Steps": {
			"faults of different steps do not affect each other",
			[]*fault.Plan{{Name: "a", Step: 1}, {Name: "b", Step: 2}, {Name: "c", Step: 3}},
			[]string{"a b c"},
		},
		"Step": {
			"one fault of a step may hide the other",
			[]*fault.Plan{{Name: "a", Step: 1}, {Name: "b", Step: 1}, {Name: "c", Step: 2}, {Name: "d", Step: 2}},
			[]string{"a c", "b d"},
		},
		"Idle": {
			"the operator has converged before and after these faults",
			[]*fault.Plan{{Name: "a", Step: 1}, {Name: "b", Step: 1, AfterIdle: idle}, {Name: "c", Step: 1, AfterIdle: idle}},
			[]string{"a b c"},
		},
		"Counts": {
			"the comparison of creations would be skipped for all",
			[]*fault.Plan{{Name: "a", Step: 1}, {Name: "b", Step: 2, SkipCounts: true}, {Name: "c", Step: 3}},
			[]string{"a c", "b"},
		},
		"Alone": {
			"these faults change the whole run",
			[]*fault.Plan{{Name: "a"}, {Name: "b"}, {Name: "c", Step: 1}},
			[]string{"a", "b", "c"},
		},
	} {
		var got []string
		for _, group := range fault.Groups(test.plans) {
			var names []string
			for _, p := range group {
				names = append(names, p.Name)
			}
			got = append(got, strings.Join(names, " "))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s\n-want +got:\n%s", name, test.reason, diff)
		}
	}
}

func TestCombine(t *testing.T) {
	t.Parallel()
	pass := func(fault.Run, *http.Request, *intercept.Call) (*http.Response, error) { return nil, nil } //nolint:nilnil // it passes
	a := &fault.Plan{Name: "a", Summary: "a failed", Target: "get-a#1", OnRequest: pass}
	b := &fault.Plan{Name: "b", Summary: "b failed", Target: "get-b#1", OnRequest: pass, ExtraQuiet: true}
	if got := fault.Combine([]*fault.Plan{a}); got != a || got.IsCombined() || !slices.Equal(got.Parts(), []*fault.Plan{a}) {
		t.Errorf("a single plan is %+v, want itself", got)
	}
	both := fault.Combine([]*fault.Plan{a, b})
	if !both.IsCombined() || !both.ExtraQuiet || both.Name != "a + b" || both.Summary != "a failed; then b failed" {
		t.Errorf("the combined plan is %+v", both)
	}
	if both.ForTarget("get-a#1") != a || both.ForTarget("get-b#1") != b || both.ForTarget("get-c#1") != nil {
		t.Error("the target of a request belongs to the wrong part")
	}
}
