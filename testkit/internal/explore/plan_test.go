package explore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
)

func TestSampleHasEachFault(t *testing.T) {
	t.Parallel()
	var plans []Plan
	for _, f := range []string{"lag", "lag", "lag", "crash-before", "lag", "crash-before", "drift-deleted"} {
		plans = append(plans, Plan{&fault.Plan{Fault: f, Name: fmt.Sprintf("%s/%d", f, len(plans))}})
	}
	required := Plan{&fault.Plan{Fault: "lag", Name: "lag/required", Required: true}}
	sample := SelectPlans(append(plans, required), 4)
	if !slices.Contains(sample, required) || !slices.Contains(sample, plans[0]) {
		t.Errorf("the sample %v lacks a required plan, or another one of its fault", sample)
	}
	many := append(slices.Clone(plans), required)
	for i := range 2 * maxRequired {
		many = append(many, Plan{&fault.Plan{Fault: "down", Name: fmt.Sprintf("down/%d", i), Required: true}})
	}
	down := func(p Plan) bool { return p.plan.Fault != "down" }
	if n := len(slices.DeleteFunc(SelectPlans(many, 5+maxRequired), down)); n != maxRequired+1 {
		t.Errorf("%d plans of a fault with many required ones are in the sample, want %d and the first other one", n, maxRequired)
	}
	heavy := Plan{&fault.Plan{Fault: "lag", Name: "lag/heavy", Weight: 1}}
	if sample := SelectPlans(append(plans, heavy), 3); !slices.Contains(sample, heavy) {
		t.Errorf("the sample %v lacks the plan with the highest weight of its fault", sample)
	}
	for n, want := range map[int][]string{
		0: nil,
		3: {"lag/0", "crash-before/3", "drift-deleted/6"},
		5: {"lag/0", "crash-before/3", "drift-deleted/6", "lag/1", "crash-before/5"},
		9: {"lag/0", "crash-before/3", "drift-deleted/6", "lag/1", "crash-before/5", "lag/2", "lag/4"},
	} {
		var got []string
		for _, p := range SelectPlans(plans, n) {
			got = append(got, p.Name())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d plans: -want +got:\n%s", n, diff)
		}
	}
}
