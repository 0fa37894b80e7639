package explore

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// Plan is one fault at one place of one run.
type Plan struct{ plan *fault.Plan }

// Name returns the name of the plan. It is unique and the same in each exploration of the operator and the scenario.
func (p Plan) Name() string { return p.plan.Name }

// minShortPlans is the minimum number of plans of a short exploration, if there are as many.
const minShortPlans = 20

// maxRequired is the number of required plans of one fault. An operator with many kinds of children and steps has more.
// They test the same code of its framework.
const maxRequired = 3

// ShortPlans returns the plans of a short exploration: the first plan of each fault, three required ones, and others up to
// 20. Long faults are left out unless the options name faults. Guard mode of the command mutants shows that these plans find
// the bugs that all plans find.
func (x *Explorer) ShortPlans(plans []Plan) []Plan {
	plans = slices.DeleteFunc(slices.Clone(plans), func(p Plan) bool { return !fault.IsShort(x.Faults, p.plan.Fault) })
	first := 0
	rank := ranks(plans)
	for _, p := range plans {
		if rank[p.Name()] == 0 {
			first++
		}
	}
	return SelectPlans(plans, max(minShortPlans, first))
}

// Group divides the plans of a short exploration into groups for [Explorer.RunGroup]. Each group costs one run.
func Group(plans []Plan) [][]Plan {
	all := make([]*fault.Plan, 0, len(plans))
	for _, p := range plans {
		all = append(all, p.plan)
	}
	var groups [][]Plan
	for _, group := range fault.Groups(all) {
		var of []Plan
		for _, p := range group {
			of = append(of, Plan{p})
		}
		groups = append(groups, of)
	}
	return groups
}

// SelectPlans returns at most n plans: the first plan of each fault and three required ones, then the second plans, and so
// on. A sample of plans that were shuffled alone would lack some faults.
func SelectPlans(plans []Plan, n int) []Plan {
	rank := ranks(plans)
	sample := slices.Clone(plans)
	slices.SortStableFunc(sample, func(a, b Plan) int { return rank[a.Name()] - rank[b.Name()] })
	return sample[:min(n, len(sample))]
}

// ranks returns the rank of each plan among those of its fault, by its name. Plans are ranked by weight, and in their order
// if it is equal. The first required plans of a fault have rank 0.
func ranks(plans []Plan) map[string]int {
	heavyFirst := slices.Clone(plans)
	slices.SortStableFunc(heavyFirst, func(a, b Plan) int { return b.plan.Weight - a.plan.Weight })
	rank := make(map[string]int, len(plans))
	seen, required := map[string]int{}, map[string]int{} // by fault
	for _, p := range heavyFirst {
		name := cmp.Or(p.plan.ShortGroup, p.plan.Fault)
		if p.plan.Required && required[name] < maxRequired {
			required[name]++
			continue // rank 0
		}
		rank[p.Name()] = seen[name]
		seen[name]++
	}
	return rank
}

// Plans returns the plans in an order determined by the seed, and those that are skipped, by reason. It requires the
// baseline.
func (x *Explorer) Plans() ([]Plan, []report.Skipped) {
	var plans []Plan
	reasons := map[string][]string{}
	for _, p := range fault.Plans(x.input()) {
		switch {
		case !fault.Selects(x.Faults, p.Fault):
		case x.SelectPlan != nil && !x.SelectPlan(p.Name):
		case p.Skip != "":
			reasons[p.Skip] = append(reasons[p.Skip], p.Name)
		default:
			plans = append(plans, Plan{&p})
		}
	}
	var skipped []report.Skipped
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		skipped = append(skipped, report.Skipped{Reason: reason, Plans: reasons[reason]})
	}
	rand.New(rand.NewPCG(uint64(x.Seed), 0)).Shuffle(len(plans), func(i, j int) { //nolint:gosec // an order is no secret
		plans[i], plans[j] = plans[j], plans[i]
	})
	return plans, skipped
}

// input returns the data from which plans are derived.
func (x *Explorer) input() *fault.Input {
	in := &fault.Input{
		Baseline: x.baseline, Irreplaceable: x.Irreplaceable, ExternallyManaged: x.ExternallyManaged,
		IsOldRevision: x.isOldRevision,
	}
	for _, step := range x.Steps {
		in.Steps = append(in.Steps, step.Name)
	}
	return in
}
