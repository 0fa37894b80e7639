package sdk

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// paused reports the pause in the status and does nothing else.
func (e *engine[T]) paused(ctx context.Context, o T, p *Pass[T]) outcome {
	return e.writeCondition(ctx, o, p, conditionPaused, conditionDryRun, "AskedFor",
		e.op.pausedBy(o)+": the operator leaves the object and its children alone")
}

// pausedBy returns the source of a pause, "" if the object is not paused.
func (op *Operator[T]) pausedBy(o T) string {
	switch {
	case o.GetAnnotations()[PausedAnnotation] == "true":
		return "annotation " + PausedAnnotation + " is set"
	case op.Paused != nil && op.Paused(o):
		return "its spec asks for a pause"
	default:
		return ""
	}
}

// dryRun reports the plan in the status.
func (e *engine[T]) dryRun(ctx context.Context, o T, p *Pass[T]) outcome {
	message, err := e.preview(ctx, o, p)
	if err != nil {
		return outcome{err: err}
	}
	return e.writeCondition(ctx, o, p, conditionDryRun, conditionPaused, "Planned", message)
}

// preview returns a description of the planned writes. It returns an error only if the read state was outdated.
func (e *engine[T]) preview(ctx context.Context, o T, p *Pass[T]) (string, error) {
	switch guarded := controllerutil.ContainsFinalizer(o, e.op.finalizerName()); {
	case o.GetDeletionTimestamp().IsZero():
	case guarded:
		return "would clean up and let the object go", nil
	default:
		return "would let the object go", nil
	}
	err := compute(ctx, o, p, e.op.Reconcile)
	switch {
	case err == nil:
		return e.summarizePlanned(ctx, p), nil
	case classify(err) == classStale:
		return "", err
	default:
		return "would do nothing: " + describe(err), nil
	}
}

// writeCondition stores one condition and discards the computed status.
func (e *engine[T]) writeCondition(
	ctx context.Context, o T, p *Pass[T], condition, removed, reason, message string,
) outcome {
	p.Object = object.Copy(o)
	conditions.Remove(p.Object, removed)
	conditions.Set(p.Object, condition, metav1.ConditionTrue, reason, message)
	p.events = nil
	p.onStatusUpdated = nil
	wrote, err := e.writeStatus(ctx, o, p)
	return outcome{wrote: wrote, err: err, requeue: p.requeue, version: p.Object.GetResourceVersion()}
}

// summarizePlanned describes the planned writes, one phrase for each child that is not converged. Conflicting objects are
// not detected, because only an attempt finds them.
func (e *engine[T]) summarizePlanned(ctx context.Context, p *Pass[T]) string {
	var plan Plan[T]
	d := planner[T]{op: e.op, kinds: e.cache.kinds, owner: e.owner}
	if err := d.children(ctx, p, &plan); err != nil && classify(err) == classPanic {
		return "would do nothing: " + describe(err)
	}
	if len(plan.Steps) == 0 {
		return "nothing would be done"
	}
	phrases := make([]string, len(plan.Steps))
	for i, s := range plan.Steps {
		phrases[i] = s.String()
	}
	return "would " + strings.Join(phrases, "; ")
}
