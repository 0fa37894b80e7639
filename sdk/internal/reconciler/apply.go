package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// maxConsecutiveFailures is the number of consecutive failed requests after which the API server counts as unavailable.
const maxConsecutiveFailures = 3

// execute carries out the plan in order and reports whether it wrote. A failure that concerns one child is kept in that
// child, and the others continue. They also continue after a transient failure. Any other error ends the execution. Children
// that failed in the last reconcile come last, so that a repeated failure does not block the others.
func (e *Reconciler) execute(ctx context.Context, p *desired.Pass) (wrote bool, err error) {
	defer retry.RecoverPanic(ctx, &err) // of a ReadyWhen function
	var failed error
	failures := 0
	p.DropRetries()
	for _, s := range p.ExecutionOrder() {
		s.Stored = s.Live
		switch other := s.BlockingChild(); {
		case s.HeldBack != nil:
			s.Err = s.HeldBack
			s.Executed = true
			continue
		case other != nil:
			s.NotReadyMessage = fmt.Sprintf("%s waits for %s", s, other)
			continue
		case p.Budget.Exhausted():
			s.NotReadyMessage = s.String() + " is not written yet"
			continue
		}
		did, err := e.applyChild(ctx, p, s)
		wrote = p.Budget.Count(did) || wrote
		if did {
			failures = 0
		}
		delete(p.PreviouslyFailed, s.ID())
		switch retry.Classify(err) {
		case retry.ClassNone:
		case retry.ClassWait, retry.ClassConflict, retry.ClassContended, retry.ClassRejected, retry.ClassInvalid:
			s.Err = err
		case retry.ClassTransient:
			p.PreviouslyFailed[s.ID()] = true
			if failures++; failures == maxConsecutiveFailures {
				return wrote, err
			}
			failed = cmp.Or(failed, err)
			s.NotReadyMessage = fmt.Sprintf("%s could not be written", s)
			continue
		default:
			return wrote, err
		}
		s.Executed = true
		s.AssessReadiness()
	}
	return wrote, failed
}

// applyChild brings one child to its desired state, with at most one write in the common case.
func (e *Reconciler) applyChild(ctx context.Context, p *desired.Pass, s *desired.Child) (bool, error) {
	intent, err := s.Intent(ctx, e.cache.Kinds, p.Object)
	if err != nil {
		return false, err
	}
	if s.Terminating { // no other change is possible, and no earlier rejection applies
		return e.releaseFinalizer(ctx, p, s, intent)
	}
	if err := cmp.Or(e.cache.NotInstalledError(s.GVK), p.Retries.Check(s.RetryKey(intent), p.Now)); err != nil {
		return false, err
	}
	switch {
	case s.Live == nil:
		return e.create(ctx, p, s, intent)
	case s.LacksFinalizer(e.op.FinalizerName):
		return e.addChildFinalizer(ctx, p, s, intent)
	case s.CreateOnly && s.Retain != p.Snapshot.Children[s.ID()].Retained:
		return e.setOwnership(ctx, p, s, s.Live)
	case s.CreateOnly:
		wrote, err := e.releaseFinalizer(ctx, p, s, intent)
		return wrote, cmp.Or(err, p.Retries.RecentContention(s.CreationKey(intent), p.Now))
	}
	return e.repair(ctx, p, s, intent)
}

// repair removes foreign content from an existing child, applies its fields and releases its finalizer, as far as necessary.
func (e *Reconciler) repair(ctx context.Context, p *desired.Pass, s *desired.Child, intent *apply.Intent) (bool, error) {
	removed, err := e.removeForeign(ctx, p, s, intent)
	if err != nil {
		return false, err
	}
	if !e.owner.Converged(intent, s.Live) {
		updated, err := e.update(ctx, p, s, intent)
		return removed || updated, err
	}
	if removed {
		p.Retries.RecordApply(s.RetryKey(intent), time.Now())
	}
	if wrote, err := e.releaseFinalizer(ctx, p, s, intent); wrote || err != nil {
		return removed || wrote, err
	}
	return removed, cmp.Or(
		p.Retries.RecentContention(s.RetryKey(intent), p.Now), p.Retries.RecentContention(s.CreationKey(intent), p.Now))
}

// recordStored takes the API server's response as the present state of the child.
func (e *Reconciler) recordStored(
	p *desired.Pass, s *desired.Child, from string, i *apply.Intent, stored client.Object,
) {
	s.Stored = e.cache.AsCached(s.GVK, stored)
	e.cache.RecordWrite(s.GVK, p.Object.GetUID(), stored)
	if from != "" {
		p.Retries.RecordApply(s.RetryKey(i), time.Now())
	}
}

// rejected turns a rejection of this child into a failure that concerns it alone, to be retried later.
func (e *Reconciler) rejected(p *desired.Pass, s *desired.Child, i *apply.Intent, err error) error {
	if retry.IsUnknownKind(err) {
		err = retry.KindNotInstalled(s.GVK, retry.NotInstalled)
	}
	err = retry.Rejection(s.GVK.Kind, s.String(), err)
	problem := retry.MostSevere(err)
	if problem != nil && (problem.Class == retry.ClassRejected || retry.IsPolled(problem.Reason)) {
		return p.Retries.RecordRejection(s.RetryKey(i), problem, time.Now())
	}
	return err
}
