package sdk

import (
	"context"
	"math/rand/v2"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// settle turns the outcome of a pass into what the queue should do. Failures are retried by the error table and never
// by returning them, because the queue's own backoff would be defeated by the events of our status writes.
func (e *engine[T]) settle(ctx context.Context, st *state, o T, out outcome) (again bool, _ reconcile.Result) {
	st.calm = nil
	class := classify(out.err)
	if class != classStale {
		st.stale = stale{}
	}
	switch class {
	case classNone, classWait, classInvalid, classConflict, classRejected, classContended:
		st.notBefore = time.Time{}
		if out.more { // and others have their turn first
			return false, reconcile.Result{RequeueAfter: time.Millisecond}
		}
		if out.wrote {
			return true, reconcile.Result{}
		}
		st.failures = 0 // and not before: an operator that never settles succeeds in every pass
		next := out.requeue
		if class != classInvalid { // somebody has to edit the object first
			next = e.next(out)
		}
		st.calm = &calm{}
		if next > 0 {
			st.calm.until = time.Now().Add(next)
		}
		return false, reconcile.Result{RequeueAfter: next}
	case classOutdated:
		st.notBefore, st.version = time.Now().Add(outdatedRetry), o.GetResourceVersion()
		return false, reconcile.Result{RequeueAfter: outdatedRetry}
	case classStale:
		if out.wrote {
			return true, reconcile.Result{}
		}
		if st.stale.look(time.Now()) {
			log.FromContext(ctx).Info("The pass is refused as out of date again and again", "error", out.err.Error())
		}
		return false, reconcile.Result{RequeueAfter: staleRetry(st.stale.looks)}
	default:
		st.failures++
		wait := retryAfter(out.err, st.failures)
		st.notBefore, st.version = time.Now().Add(wait), out.version
		if st.version == "" {
			st.version = o.GetResourceVersion()
		}
		countFailure(e.op.Name, out.err)
		log.FromContext(ctx).Info("The pass failed and is retried", "error", out.err.Error(), "after", wait.String())
		return false, reconcile.Result{RequeueAfter: wait}
	}
}

// stale is how often in a row a pass has seen an old state of children, and since when.
type stale struct {
	looks int
	since time.Time
	told  bool
}

// suspicious is for how long a cache may show an old state before that is told: more than it needs.
const suspicious = 10 * time.Second

// look counts one more and reports, once, that they have gone on for too long. However many there are in a short time means
// nothing: each event causes one.
func (s *stale) look(now time.Time) bool {
	if s.looks++; s.looks == 1 {
		s.since = now
	}
	late := !s.told && now.Sub(s.since) >= suspicious
	s.told = s.told || late
	return late
}

// staleRetry is how long to give the cache to catch up with what somebody else wrote, before the n-th look in a row, n
// counting from 1: 20 ms, doubling up to 5 s. What the cache gets ends the wait.
func staleRetry(n int) time.Duration {
	const first, limit = 20 * time.Millisecond, 5 * time.Second
	if n > 8 {
		return limit
	}
	return min(first<<(n-1), limit)
}

// outdatedRetry is the same for the object itself, whose next version ends the wait.
const outdatedRetry = time.Second

// next is when to look again although nothing happened: what the operator asked for, or the resync.
func (e *engine[T]) next(out outcome) time.Duration {
	resync := e.op.Resync
	if resync == 0 {
		resync = defaultResync
	}
	next := out.requeue
	if d := waitAfter(out.err); d > 0 && (next == 0 || d < next) {
		next = d
	}
	if resync > 0 {
		jittered := time.Duration(float64(resync) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // spreading load needs no secrecy.
		if next == 0 || jittered < next {
			next = jittered
		}
	}
	return next
}
