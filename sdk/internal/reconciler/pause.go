package reconciler

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/planner"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
	"github.com/homeostat-dev/homeostat/sdk/internal/status"
)

// paused reports the pause in the status and does nothing else.
func (e *Reconciler) paused(ctx context.Context, o desired.Object, p *desired.Pass) outcome {
	return e.writeCondition(ctx, o, p, status.ConditionPaused, status.ConditionDryRun, "AskedFor",
		e.op.PausedBy(o)+": the operator leaves the object and its children alone")
}

// dryRun reports the plan in the status.
func (e *Reconciler) dryRun(ctx context.Context, o desired.Object, p *desired.Pass) outcome {
	message, err := e.preview(ctx, o, p)
	if err != nil {
		return outcome{err: err}
	}
	return e.writeCondition(ctx, o, p, status.ConditionDryRun, status.ConditionPaused, "Planned", message)
}

// preview returns a description of the planned writes. It returns an error only if the read state was outdated.
func (e *Reconciler) preview(ctx context.Context, o desired.Object, p *desired.Pass) (string, error) {
	p.IsDry = true
	switch guarded := controllerutil.ContainsFinalizer(o, e.op.FinalizerName); {
	case o.GetDeletionTimestamp().IsZero():
	case guarded:
		return planner.DescribeCleanUp(e.op, p), nil
	default:
		return "would let the object go", nil
	}
	err := desired.Compute(ctx, o, p, e.op.Reconcile)
	switch {
	case err == nil:
		return planner.Describe(ctx, e.op, e.cache.Kinds, e.owner, p), nil
	case retry.Classify(err) == retry.ClassStale:
		return "", err
	default:
		return "would do nothing: " + retry.Describe(err), nil
	}
}

// writeCondition stores one condition and discards the computed status.
func (e *Reconciler) writeCondition(
	ctx context.Context, o desired.Object, p *desired.Pass, condition, removed, reason, message string,
) outcome {
	p.Replace(object.Copy(o))
	conditions.Remove(p.Object, removed)
	conditions.Set(p.Object, condition, metav1.ConditionTrue, reason, message)
	p.Events = nil
	p.StatusUpdatedFuncs = nil
	wrote, err := e.writeStatus(ctx, o, p)
	return outcome{wrote: wrote, err: err, requeue: p.Requeue, version: p.Object.GetResourceVersion()}
}
