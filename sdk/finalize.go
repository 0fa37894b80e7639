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

// finalize makes one pass over an object that is being deleted. The status is written before the finalizer goes,
// because there is no object to write to afterwards.
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
	// The clean-up must not be repeated because the informer is slow. An object of which nothing is left is marked,
	// since the server's answer then has the resourceVersion of before the write and cannot be told from it.
	switch {
	case err != nil:
	case wrote && len(p.Object.GetFinalizers()) > 0:
		e.view.wrote(e.view.primary, "", object.Copy(p.Object))
	default:
		e.view.deletes(o.GetUID())
	}
	return outcome{wrote: wrote, err: outdated(err)}
}

// cleanUp calls the operator's Finalize, carries out what it recorded and sees to the end of remote children. It reports
// whether the object may go.
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
		func() (bool, error) { return false, cmp.Or(worst(p.plan), unfinished(p.plan)) },
		func() (bool, error) {
			if err := e.disown(ctx, p); err != nil {
				return false, err
			}
			return e.collect(ctx, p)
		},
		func() (bool, error) { return false, e.farewell(ctx, o, p) },
	} {
		out.wrote, out.err = do()
		out.more = p.turn.ended
		if out.wrote && out.err == nil {
			return out, false // the next step is for a pass that sees what was written
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
	out.requeue, out.version = p.requeue, p.Object.GetResourceVersion()
	return out, false
}

// farewell stores what a clean-up that is done left in the status and sends its events.
func (e *engine[T]) farewell(ctx context.Context, o T, p *Pass[T]) error {
	if len(p.Object.GetFinalizers()) > 1 { // the object stays, and must not say that it waits for us
		conditions.Remove(p.Object, conditionPaused)
		conditions.Remove(p.Object, conditionDryRun)
		const message = "the clean-up is done; others still hold the object"
		conditions.Set(p.Object, conditions.Deleting, metav1.ConditionTrue, "CleanedUp", message)
		conditions.MarkReconciling(p.Object, conditions.Deleting, message)
	}
	wrote, err := e.writeStatus(ctx, o, p)
	if !wrote && err == nil {
		e.announce(o, p)
	}
	return err
}

// unfinished waits for the children of a clean-up, such as a last backup's Job.
func unfinished(plan []*step) error {
	for _, s := range plan {
		if !s.isReady {
			return Wait("CleaningUp", "%s", s.waits)
		}
	}
	return nil
}

func (e *engine[T]) markDeleting(p *Pass[T], err error) {
	reason, message := "CleaningUp", describe(err)
	switch cause := gravest(err); {
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

// releaseTerminating lets go of tracked children of an object that is going itself: its status, in which they would be
// counted, goes too.
func (e *engine[T]) releaseTerminating(ctx context.Context, p *Pass[T]) error {
	if err := e.releaseFormer(ctx, p.seen.children); err != nil {
		return err
	}
	return e.releaseFormer(ctx, p.seen.former)
}
