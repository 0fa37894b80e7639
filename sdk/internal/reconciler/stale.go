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
	if retry.Classify(out.err) != retry.ClassStale || !st.staleReads.tooLong(time.Now()) || out.version != "" {
		return
	}
	p := e.newPass(ctx, st, o, seen)
	conditions.MarkRetrying(p.Object, "Outdated",
		"the state that the operator reads is out of date again and again: "+retry.Describe(out.err))
	wrote, err := e.writeStatus(ctx, o, p)
	if err != nil {
		log.FromContext(ctx).Info("The status of a stale pass was not stored", "error", err.Error())
	}
	out.wrote = out.wrote || wrote
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
