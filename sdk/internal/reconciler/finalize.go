package reconciler

import (
	"cmp"
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/finalizer"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
	"github.com/homeostat-dev/homeostat/sdk/internal/status"
)

// finalize reconciles an object that is being deleted. It writes the status before it removes the finalizer, because the
// object may not exist afterwards.
func (e *Reconciler) finalize(ctx context.Context, st *objectState, o desired.Object, p *desired.Pass) outcome {
	if err := e.releaseTerminating(ctx, p); err != nil {
		return outcome{err: err}
	}
	if !controllerutil.ContainsFinalizer(o, e.op.FinalizerName) {
		return outcome{}
	}
	if o.GetAnnotations()[desired.ReleaseAnnotation] != "true" {
		if out, done := e.cleanUp(ctx, st, o, p); !done {
			return out
		}
	}
	wrote, err := finalizer.Remove(ctx, e.client, p.Object, e.op.FinalizerName)
	// A slow informer must not cause a second clean-up. An object without remaining finalizers is marked as deleted instead:
	// the resourceVersion in the response is that of before the write, so the overlay cannot order it.
	switch {
	case err != nil:
	case wrote && len(p.Object.GetFinalizers()) > 0:
		e.cache.RecordWrite(e.cache.Primary, "", object.Copy(p.Object))
	default:
		e.cache.RecordDeletion(o.GetUID())
	}
	return outcome{wrote: wrote, err: retry.MarkOutdated(err)}
}

// cleanUp calls the operator's Finalize, carries out its record, and deletes external resources and cross-namespace
// children. It reports whether the finalizer may be removed.
func (e *Reconciler) cleanUp(ctx context.Context, st *objectState, o desired.Object, p *desired.Pass) (outcome, bool) {
	var out outcome
	for _, do := range []func() (bool, error){
		func() (bool, error) {
			if !e.op.NeedsFinalizer(o) {
				return false, nil
			}
			return false, desired.Compute(ctx, o, p, e.op.Finalize)
		},
		func() (bool, error) { return e.execute(ctx, p) },
		func() (bool, error) {
			if p.Unfinished == nil {
				return false, nil
			}
			return e.prune(ctx, p, false)
		},
		func() (bool, error) {
			return false, cmp.Or(desired.WorstChildError(p.Plan), p.Unfinished, waitForCleanUpChildren(p.Plan))
		},
		func() (bool, error) {
			if e.op.External == nil {
				return false, nil
			}
			return false, e.op.External.Delete(ctx, p, e.op.Connect, st.external)
		},
		func() (bool, error) {
			if err := e.orphanChildren(ctx, p); err != nil {
				return false, err
			}
			return e.deleteCrossNamespace(ctx, p)
		},
		func() (bool, error) { return false, e.writeFinalStatus(ctx, o, p) },
	} {
		wrote, err := do()
		out.wrote = wrote
		out.err = err
		out.budgetSpent = p.Budget.Spent
		if out.wrote && out.err == nil {
			return out, false // the next step needs a reconcile that has read these writes
		}
		if out.err != nil {
			break
		}
	}
	if out.err == nil {
		return out, true
	}
	if !isStale(out.err) {
		e.markDeleting(p, out.err)
		wrote, err := e.writeStatus(ctx, o, p)
		out.wrote = out.wrote || wrote
		if err != nil {
			out.err = err
		}
		out.version = p.Object.GetResourceVersion()
	}
	out.requeue = p.Requeue
	return out, false
}

// writeFinalStatus stores the status after a completed clean-up and sends its events.
func (e *Reconciler) writeFinalStatus(ctx context.Context, o desired.Object, p *desired.Pass) error {
	if len(p.Object.GetFinalizers()) > 1 { // the object remains, and must not report that it waits for us
		conditions.Remove(p.Object, status.ConditionPaused)
		conditions.Remove(p.Object, status.ConditionDryRun)
		const message = "the clean-up is done; others still hold the object"
		conditions.Set(p.Object, conditions.Deleting, metav1.ConditionTrue, "CleanedUp", message)
		conditions.MarkReconciling(p.Object, conditions.Deleting, message)
	}
	wrote, err := e.writeStatus(ctx, o, p)
	if !wrote && err == nil {
		e.sendEvents(o, p)
	}
	return err
}

// waitForCleanUpChildren waits for the children of a clean-up, such as the Job of a last backup.
func waitForCleanUpChildren(plan []*desired.Child) error {
	for _, s := range plan {
		if !s.IsReady {
			return retry.Wait("CleaningUp", "%s", s.NotReadyMessage)
		}
	}
	return nil
}

func (e *Reconciler) markDeleting(p *desired.Pass, err error) {
	reason, message := "CleaningUp", retry.Describe(err)
	switch cause := retry.MostSevere(err); {
	case cause == nil, cause.Class == retry.ClassPanic:
		reason = "CleanUpFailing"
	case cause.Reason == reason:
		message = cause.Message
	}
	timeout := e.op.FinalizeTimeout
	if timeout == 0 {
		timeout = defaultFinalizeTimeout
	}
	overdue := p.Now.Sub(p.Object.GetDeletionTimestamp().Time) > timeout
	if overdue {
		reason = "CleanUpOverdue"
		message += "; to let the object go without clean-up set annotation " + desired.ReleaseAnnotation + "=true"
	}
	was := conditions.Get(p.Object, conditions.Deleting)
	if overdue && (was == nil || was.Reason != reason) {
		p.Events = append(p.Events, desired.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: message})
	}
	if !overdue {
		p.RequeueAfter(time.Until(p.Object.GetDeletionTimestamp().Add(timeout)))
	}
	conditions.Remove(p.Object, status.ConditionPaused)
	conditions.Remove(p.Object, status.ConditionDryRun)
	conditions.Set(p.Object, conditions.Deleting, metav1.ConditionTrue, reason, message)
	conditions.MarkReconciling(p.Object, conditions.Deleting, message)
}

// releaseTerminating removes the tracking finalizers from children of an object that is being deleted: its status, the
// record of these children, is deleted too.
func (e *Reconciler) releaseTerminating(ctx context.Context, p *desired.Pass) error {
	if err := e.releasePredecessors(ctx, p.Snapshot.Children); err != nil {
		return err
	}
	return e.releasePredecessors(ctx, p.Snapshot.PredecessorChildren)
}

// deleteCrossNamespace deletes the cross-namespace children of an object that is being deleted, and waits until all of them
// are being deleted. Children that the clean-up applies come last and are not waited for, because the next reconcile would
// apply them again.
func (e *Reconciler) deleteCrossNamespace(ctx context.Context, p *desired.Pass) (wrote bool, err error) {
	var remaining []string
	var errs []error
	for _, id := range p.Unplanned() {
		child := p.Snapshot.Children[id]
		// A finalizer of another controller on a child, or one that an editor of its namespace has added, does not hold up the
		// deletion of the parent.
		if !child.CrossNamespace || child.Terminating || e.op.IsOrphan(p, id.GVK, child.Object) {
			continue
		}
		remaining = append(remaining, id.From(p.Object.GetNamespace()))
		if !p.Budget.Exhausted() {
			if _, err := e.delete(ctx, id, child.Object, metav1.DeletePropagationBackground); err != nil {
				errs = append(errs, err) // such as that of an admission policy; it must not keep the other children
				continue
			}
			wrote = p.Budget.Count(true)
		}
	}
	if len(errs) > 0 {
		return wrote, errors.Join(errs...)
	}
	if len(remaining) > 0 {
		return wrote, retry.Wait("CleaningUp", "still being deleted: %s", retry.JoinMessages(remaining))
	}
	for _, s := range p.Plan {
		if s.CrossNamespace && s.Stored != nil && !e.op.IsOrphan(p, s.GVK, s.Stored) {
			if _, err := e.delete(ctx, s.ID(), s.Stored, metav1.DeletePropagationBackground); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// orphanChildren removes the ownership of the children that shall outlive an object that is being deleted.
func (e *Reconciler) orphanChildren(ctx context.Context, p *desired.Pass) error {
	for id, child := range p.Snapshot.Children {
		if !e.op.IsOrphan(p, id.GVK, child.Object) {
			continue
		}
		if err := e.removeOwnership(ctx, p.Object.GetUID(), id, child); err != nil {
			return err
		}
	}
	return nil
}
