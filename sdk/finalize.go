package sdk

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/finalizer"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// finalize reconciles an object that is being deleted. It writes the status before it removes the finalizer, because the
// object may not exist afterwards.
func (e *engine[T]) finalize(ctx context.Context, o T, p *Pass[T]) outcome {
	if err := e.releaseTerminating(ctx, p); err != nil {
		return outcome{err: err}
	}
	if !controllerutil.ContainsFinalizer(o, e.op.finalizerName()) {
		return outcome{}
	}
	if o.GetAnnotations()[ReleaseAnnotation] != "true" {
		if out, done := e.cleanUp(ctx, o, p); !done {
			return out
		}
	}
	wrote, err := finalizer.Remove(ctx, e.client, p.Object, e.op.finalizerName())
	// A slow informer must not cause a second clean-up. An object without remaining finalizers is marked as deleted instead:
	// the resourceVersion in the response is that of before the write, so the overlay cannot order it.
	switch {
	case err != nil:
	case wrote && len(p.Object.GetFinalizers()) > 0:
		e.cache.recordWrite(e.cache.primary, "", object.Copy(p.Object))
	default:
		e.cache.recordDeletion(o.GetUID())
	}
	return outcome{wrote: wrote, err: outdated(err)}
}

// cleanUp calls the operator's Finalize, carries out its record and deletes cross-namespace children. It reports whether the
// finalizer may be removed.
func (e *engine[T]) cleanUp(ctx context.Context, o T, p *Pass[T]) (outcome, bool) {
	var out outcome
	for _, do := range []func() (bool, error){
		func() (bool, error) {
			if !e.op.needsFinalizer(o) {
				return false, nil
			}
			return false, compute(ctx, o, p, e.op.Finalize)
		},
		func() (bool, error) { return e.execute(ctx, p) },
		func() (bool, error) { return false, cmp.Or(worstChildError(p.plan), waitForCleanUpChildren(p.plan)) },
		func() (bool, error) {
			if err := e.orphanChildren(ctx, p); err != nil {
				return false, err
			}
			return e.deleteCrossNamespace(ctx, p)
		},
		func() (bool, error) { return false, e.writeFinalStatus(ctx, o, p) },
	} {
		out.wrote, out.err = do()
		out.budgetSpent = p.budget.spent
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
	if class := classify(out.err); class != classStale && class != classOutdated {
		e.markDeleting(p, out.err)
		wrote, err := e.writeStatus(ctx, o, p)
		out.wrote = out.wrote || wrote
		if err != nil {
			out.err = err
		}
	}
	out.requeue = p.requeue
	out.version = p.Object.GetResourceVersion()
	return out, false
}

// writeFinalStatus stores the status after a completed clean-up and sends its events.
func (e *engine[T]) writeFinalStatus(ctx context.Context, o T, p *Pass[T]) error {
	if len(p.Object.GetFinalizers()) > 1 { // the object remains, and must not report that it waits for us
		conditions.Remove(p.Object, conditionPaused)
		conditions.Remove(p.Object, conditionDryRun)
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
func waitForCleanUpChildren(plan []*plannedChild) error {
	for _, s := range plan {
		if !s.isReady {
			return Wait("CleaningUp", "%s", s.waits)
		}
	}
	return nil
}

func (e *engine[T]) markDeleting(p *Pass[T], err error) {
	reason, message := "CleaningUp", describe(err)
	switch cause := mostSevere(err); {
	case cause == nil, cause.class == classPanic:
		reason = "CleanUpFailing"
	case cause.reason == reason:
		message = cause.message
	}
	timeout := e.op.FinalizeTimeout
	if timeout == 0 {
		timeout = defaultFinalizeTimeout
	}
	overdue := p.Now.Sub(p.Object.GetDeletionTimestamp().Time) > timeout
	if overdue {
		reason = "CleanUpOverdue"
		message += "; to let the object go without clean-up set annotation " + ReleaseAnnotation + "=true"
	}
	was := conditions.Get(p.Object, conditions.Deleting)
	if overdue && (was == nil || was.Reason != reason) {
		p.events = append(p.events, event{corev1.EventTypeWarning, reason, message})
	}
	if !overdue {
		p.RequeueAfter(time.Until(p.Object.GetDeletionTimestamp().Add(timeout)))
	}
	conditions.Remove(p.Object, conditionPaused)
	conditions.Remove(p.Object, conditionDryRun)
	conditions.Set(p.Object, conditions.Deleting, metav1.ConditionTrue, reason, message)
	conditions.MarkReconciling(p.Object, conditions.Deleting, message)
}

// releaseTerminating removes the tracking finalizers from children of an object that is being deleted: its status, the
// record of these children, is deleted too.
func (e *engine[T]) releaseTerminating(ctx context.Context, p *Pass[T]) error {
	if err := e.releasePredecessors(ctx, p.snapshot.children); err != nil {
		return err
	}
	return e.releasePredecessors(ctx, p.snapshot.predecessors)
}
