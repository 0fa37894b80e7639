package reconciler

import (
	"context"
	"math/rand/v2"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// result turns the outcome of a reconcile into a workqueue result. Failures are retried according to the error table and are
// never returned as errors: events of our own status writes would defeat the workqueue's backoff.
func (e *Reconciler) result(
	ctx context.Context, st *objectState, o desired.Object, out outcome,
) (again bool, _ reconcile.Result) {
	st.idle = nil
	class := retry.Classify(out.err)
	if !isStale(out.err) {
		st.staleReads = staleReads{}
	}
	switch class {
	case retry.ClassNone, retry.ClassWait, retry.ClassInvalid, retry.ClassConflict, retry.ClassRejected, retry.ClassContended:
		st.notBefore = time.Time{}
		if out.budgetSpent { // other objects are reconciled first
			return false, reconcile.Result{RequeueAfter: time.Millisecond}
		}
		if out.wrote {
			return true, reconcile.Result{}
		}
		if e.op.Decorates && out.err != nil { // no condition shows it
			log.FromContext(ctx).Info("The object is not in its desired state", "error", out.err.Error())
		}
		st.failures = 0 // only here: in an operator that never converges every reconcile succeeds
		next := out.requeue
		if class != retry.ClassInvalid { // an edit of the object ends it
			next = e.requeueAfter(out)
		}
		st.idle = &idleState{}
		if next > 0 {
			st.idle.until = time.Now().Add(next)
		}
		return false, reconcile.Result{RequeueAfter: next}
	case retry.ClassOutdated:
		st.notBefore = time.Now().Add(outdatedRetry)
		st.version = o.GetResourceVersion()
		st.recordStale(ctx, out.err)
		return false, reconcile.Result{RequeueAfter: outdatedRetry}
	case retry.ClassStale:
		if out.wrote {
			return true, reconcile.Result{}
		}
		st.recordStale(ctx, out.err)
		return false, reconcile.Result{RequeueAfter: staleRetry(st.staleReads.count)}
	default:
		st.failures++
		wait := retry.BackoffAfter(out.err, st.failures)
		st.notBefore = time.Now().Add(wait)
		st.version = out.version
		if st.version == "" {
			st.version = o.GetResourceVersion()
		}
		countFailure(e.op.Name, out.err)
		log.FromContext(ctx).Info("The pass failed and is retried", "error", out.err.Error(), "after", wait.String())
		return false, reconcile.Result{RequeueAfter: wait}
	}
}

// outdatedRetry is the delay while the cache of the primary object catches up. Its next version ends the delay.
const outdatedRetry = time.Second

// requeueAfter returns the time until the next reconcile without an event: the request of the operator or the resync.
func (e *Reconciler) requeueAfter(out outcome) time.Duration {
	resync := e.op.Resync
	if resync == 0 {
		resync = defaultResync
	}
	next := out.requeue
	if d := retry.RequestedDelay(out.err); d > 0 && (next == 0 || d < next) {
		next = d
	}
	if resync > 0 {
		jittered := time.Duration(float64(resync) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // jitter needs no secrecy.
		if next == 0 || jittered < next {
			next = jittered
		}
	}
	return next
}

const (
	defaultResync          = 10 * time.Minute
	defaultFinalizeTimeout = 10 * time.Minute
)
