package explore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// This file measures how long an operator takes to retry, and extends the timeout of the runs.

const (
	// maxRetry is the time within which a failed write must be repeated to be measured.
	maxRetry = 90 * time.Second
	// retriesPerTimeout is the number of retries that fit into the timeout.
	retriesPerTimeout = 3
)

// measureRetry injects an error into a write, measures how long the operator takes to repeat it, and extends the timeout for
// an operator with slow retries. It does nothing if a timeout was set, or if there is no suitable write.
func (x *Explorer) measureRetry(ctx context.Context) error {
	if !x.measuresRetry || x.OnlyList || x.baseline == nil {
		return nil
	}
	plan := x.retryPlan()
	if plan == nil {
		return nil
	}
	own := *x
	own.Timeout = maxRetry
	r := own.newRun(ctx, plan, x.baseline)
	r.execute()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("measuring how long a retry takes: %w", err)
	}
	if r.infraError() != nil {
		return fmt.Errorf("measuring how long a retry takes: %w", r.infraError())
	}
	if retry, ok := retryTime(r.operator.Calls(), plan.Target); ok {
		x.extendTimeout(retry)
	}
	return nil
}

// extendTimeout sets a timeout that has room for several retries.
func (x *Explorer) extendTimeout(retry time.Duration) {
	x.retry = retry
	x.Timeout = max(x.Timeout, retriesPerTimeout*retry)
}

// retryPlan returns a plan in which a write fails once, preferably the first one of a child: a framework may have retries
// of its own for the custom resource. It returns nil if there is none.
func (x *Explorer) retryPlan() *fault.Plan {
	own := map[intercept.GroupResource]bool{}
	for _, children := range x.baseline.Children {
		for _, c := range children {
			own[c.Kind] = true
		}
	}
	var target string
	for _, onlyChildren := range []bool{true, false} {
		i := slices.IndexFunc(x.baseline.Calls, func(t baseline.Target) bool {
			return t.Writes && t.Effective && t.Step > 0 && t.Step <= len(x.Steps) && (own[t.Kind] || !onlyChildren)
		})
		if i >= 0 {
			target = x.baseline.Calls[i].ID()
			break
		}
	}
	plans := fault.Plans(x.input())
	i := slices.IndexFunc(plans, func(p fault.Plan) bool {
		return p.Fault == "error-500" && p.Skip == "" && p.Target == target
	})
	if target == "" || i < 0 {
		return nil
	}
	plan := plans[i]
	return &plan
}

// retryTime returns the time between a failed request and the next one of the same object.
func retryTime(calls []intercept.Call, target string) (time.Duration, bool) {
	i := slices.IndexFunc(calls, func(c intercept.Call) bool { return c.Target == target && !c.Reached })
	if i < 0 {
		return 0, false
	}
	failed := calls[i]
	for _, c := range calls[i+1:] {
		if c.Verb == failed.Verb && c.Name == failed.Name && c.Subresource == failed.Subresource &&
			intercept.GroupResourceOf(c.Request) == intercept.GroupResourceOf(failed.Request) {
			return c.Began - failed.Ended, true
		}
	}
	return 0, false
}

// retryNotes tells what was learned, unless it is usual.
func (x *Explorer) retryNotes() []string {
	if x.retry*retriesPerTimeout <= defaultTimeout {
		return nil
	}
	return []string{fmt.Sprintf(
		"a failed write was repeated after %v: each run waits up to %v for the state of the runs without a fault",
		x.retry.Round(100*time.Millisecond), x.Timeout.Round(time.Second))}
}
