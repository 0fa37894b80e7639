package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// staleReads counts consecutive reconciles that read an outdated state of children.
type staleReads struct {
	count  int
	since  time.Time
	warned bool
}

// staleReportAfter is how long a stale cache is tolerated before it is logged and reported in the status. It exceeds any
// usual lag of an informer.
const staleReportAfter = 5 * time.Second

// record counts one stale read and reports, once, that they continue for too long. The count within a short time is not
// significant, because each event causes one.
func (s *staleReads) record(now time.Time) bool {
	if s.count++; s.count == 1 {
		s.since = now
	}
	tooLong := !s.warned && s.tooLong(now)
	s.warned = s.warned || tooLong
	return tooLong
}

// recordStale counts a stale reconcile and logs, once, that they continue for too long.
func (st *objectState) recordStale(ctx context.Context, err error) {
	if st.staleReads.record(time.Now()) {
		log.FromContext(ctx).Info("The pass is refused as out of date again and again", "error", err.Error())
	}
}

// tooLong reports whether all reads have been stale for staleReportAfter.
func (s *staleReads) tooLong(now time.Time) bool {
	return s.count > 0 && now.Sub(s.since) >= staleReportAfter
}

// staleRetry returns the delay before the n-th consecutive retry, n counting from 1, while a cache catches up with the write
// of another client: 20 ms, doubling up to 5 s. An event ends the delay.
func staleRetry(n int) time.Duration {
	const first, limit = 20 * time.Millisecond, 5 * time.Second
	if n > 8 {
		return limit
	}
	return min(first<<(n-1), limit)
}

// reportStale stores a condition if the reconciles of the object have been stale for too long. The rest of the status stays:
// the pass computed it from an outdated state.
func (e *Reconciler) reportStale(
	ctx context.Context, st *objectState, o desired.Object, seen *observed.Snapshot, out *outcome,
) {
	if !isStale(out.err) || !st.staleReads.tooLong(time.Now()) || out.version != "" {
		return
	}
	p, message := e.newPass(ctx, st, o, seen), staleMessage(out.err)
	if out.alongside != nil {
		message += "; " + retry.Describe(out.alongside)
	}
	if o.GetDeletionTimestamp().IsZero() {
		conditions.MarkRetrying(p.Object, "Outdated", message)
	} else {
		e.markDeleting(p, errors.New(message))
	}
	wrote, err := e.writeStatus(ctx, o, p)
	if err != nil && !isStale(err) {
		log.FromContext(ctx).Info("The status of a stale pass was not stored", "error", err.Error())
	}
	out.wrote = out.wrote || wrote
}

// isStale reports whether a reconcile ended because the state that it had read was outdated.
func isStale(err error) bool {
	class := retry.Classify(err)
	return class == retry.ClassStale || class == retry.ClassOutdated
}

func staleMessage(err error) string {
	return "the state that the operator reads is out of date again and again: " + retry.Describe(err)
}

// unfinished returns the error of the last reconcile after it had stored its status, to be reported by the next one. A stale
// read is reported if it continues for too long.
func (st *objectState) unfinished() error {
	if isStale(st.afterStatus) {
		if !st.staleReads.tooLong(time.Now()) {
			return nil
		}
		return errors.New(staleMessage(st.afterStatus))
	}
	return st.afterStatus
}

// missing returns the error for a request about a child that answered err. Only a deleted object means that the pass was
// stale. Any other error, such as a missing permission, ends by no retry alone, so the status reports it.
func (e *Reconciler) missing(p *desired.Pass, s *desired.Child, i *apply.Intent, doing string, err error) error {
	err = fmt.Errorf("%s %s: %w", doing, s, err)
	if apierrors.IsNotFound(err) && !retry.IsUnknownKind(err) {
		return errors.Join(apply.ErrStale, err)
	}
	return e.rejected(p, s, i, err)
}
