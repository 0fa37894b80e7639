package explore

import (
	"fmt"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// Selection limits the plans that are tried. The plans that are not tried are in the report, with the reason.
type Selection struct {
	// MaxPlans is the maximum number of plans: the first plan of each fault first, then the second ones. Zero means all.
	MaxPlans int
	// Budget is the time after which no further plan is started, counted from the end of the baseline runs. The plans are
	// ordered as for MaxPlans. Zero means no limit.
	Budget time.Duration
	// OnlyList tries no plan. The report lists all.
	OnlyList bool
}

// OnlyListed is the reason why plans were not tried with OnlyList.
const OnlyListed = "only a list was requested"

// selected returns the plans to try and the other ones.
func (x *Explorer) selected(plans []Plan) (chosen []Plan, others []report.Skipped) {
	switch {
	case x.OnlyList:
		return nil, notTried(nil, OnlyListed, names(SelectPlans(plans, len(plans))))
	case x.MaxPlans > 0:
		ordered := SelectPlans(plans, len(plans))
		n := min(x.MaxPlans, len(ordered))
		return ordered[:n], notTried(nil, fmt.Sprintf("only a sample of %d was requested", x.MaxPlans), names(ordered[n:]))
	case x.Budget > 0:
		return SelectPlans(plans, len(plans)), nil
	default:
		return plans, nil
	}
}

func notTried(skipped []report.Skipped, reason string, plans []string) []report.Skipped {
	if len(plans) == 0 {
		return skipped
	}
	return append(skipped, report.Skipped{Reason: reason, Plans: plans})
}

func names(plans []Plan) []string {
	all := make([]string, 0, len(plans))
	for _, p := range plans {
		all = append(all, p.Name())
	}
	return all
}

// impossible is the reason why plans were not tried after an error.
const impossible = "the exploration could not go on"

// whyOver returns the reason why no further plan is started, or "".
func (x *Explorer) whyOver(began time.Time, failed, broken bool) string {
	switch {
	case broken:
		return impossible
	case failed && x.StopAtFailure:
		return "a run had failed before"
	case x.Budget > 0 && time.Since(began) > x.Budget:
		return fmt.Sprintf("the time of %v was over", x.Budget)
	default:
		return ""
	}
}
