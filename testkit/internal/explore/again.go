package explore

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// repetitions has the causes that were found in a second run, or for which one is in progress. It is safe for concurrent
// use.
type repetitions struct {
	mu     sync.Mutex
	causes map[string]bool
}

// begin adds the causes of a run. It reports whether one of them is new.
func (p *repetitions) begin(run report.Run) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNew := false
	for _, v := range run.Violations {
		isNew = isNew || !p.causes[v.CauseKey()]
		p.causes[v.CauseKey()] = true
	}
	return isNew
}

// end removes the causes of a run that the second one does not have. It returns [report.Run.Again].
func (p *repetitions) end(run, second report.Run) report.Outcome {
	p.mu.Lock()
	defer p.mu.Unlock()
	again := report.Passed
	if second.Outcome == report.Untried {
		again = report.Untried
	}
	for _, v := range run.Violations {
		if slices.ContainsFunc(second.Violations, func(w report.Violation) bool { return w.CauseKey() == v.CauseKey() }) {
			again = report.Failed
		} else {
			delete(p.causes, v.CauseKey())
		}
	}
	return again
}

// RunPlan performs the run of one plan, and a second one if the first has a new cause of failure, for [report.Run.Again].
// Explorations that end with the first finding have no second run.
func (x *Explorer) RunPlan(ctx context.Context, p Plan) (report.Run, error) {
	run, err := x.tryPlan(ctx, p)
	if err != nil || run.Outcome != report.Failed || x.StopAtFailure || !x.repeated.begin(run) {
		return run, err
	}
	if second, err := x.tryPlan(ctx, p); err == nil { // or the first run has a result nevertheless
		run.Again = x.repeated.end(run, second)
	}
	return run, nil
}

// tryPlan performs the run of one plan. A fault that could not be injected is tried a second time.
func (x *Explorer) tryPlan(ctx context.Context, p Plan) (report.Run, error) {
	for chance := 1; ; chance++ {
		r, err := x.newFaultRun(ctx, p.plan)
		if err != nil {
			return report.Run{}, err
		}
		r.execute()
		out := r.report()
		if err := ctx.Err(); err != nil {
			return report.Run{}, fmt.Errorf("trying %s: %w", p.Name(), err) // the run was interrupted, so its result means nothing
		}
		if r.infraError() != nil {
			return out, fmt.Errorf("trying %s: %w", p.Name(), r.infraError())
		}
		if out.Outcome != report.Untried || chance == 2 {
			return out, nil
		}
	}
}
