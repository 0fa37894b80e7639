package sdk

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// paused says in the status that the operator keeps its hands off, and does so.
func (e *engine[T]) paused(ctx context.Context, o T, p *Pass[T]) outcome {
	return e.report(ctx, o, p, conditionPaused, conditionDryRun, "AskedFor",
		e.op.pausedBy(o)+": the operator leaves the object and its children alone")
}

// pausedBy says what asks for a pause of the object, "" if nothing does.
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

// dryRun says in the status what would be done.
func (e *engine[T]) dryRun(ctx context.Context, o T, p *Pass[T]) outcome {
	message, err := e.preview(ctx, o, p)
	if err != nil {
		return outcome{err: err}
	}
	return e.report(ctx, o, p, conditionDryRun, conditionPaused, "Planned", message)
}

// preview says what a pass would do. Its only errors are those of having looked at an old state.
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
		return e.outline(ctx, p), nil
	case classify(err) == classStale:
		return "", err
	default:
		return "would do nothing: " + describe(err), nil
	}
}

// report stores one condition, and nothing that the pass computed.
func (e *engine[T]) report(ctx context.Context, o T, p *Pass[T], condition, instead, reason, message string) outcome {
	p.Object = object.Copy(o)
	conditions.Remove(p.Object, instead)
	conditions.Set(p.Object, condition, metav1.ConditionTrue, reason, message)
	p.events, p.onStored = nil, nil
	wrote, err := e.writeStatus(ctx, o, p)
	return outcome{wrote: wrote, err: err, requeue: p.requeue, version: p.Object.GetResourceVersion()}
}

// outline says what carrying out the plan would do, one phrase a child that is not converged. What is in the way of a child
// only an attempt would tell.
func (e *engine[T]) outline(ctx context.Context, p *Pass[T]) string {
	var plan Plan[T]
	d := drafter[T]{op: e.op, kinds: e.view.kinds, owner: e.owner}
	if err := d.children(ctx, p, &plan); err != nil && classify(err) == classPanic {
		return "would do nothing: " + describe(err)
	}
	if len(plan.Steps) == 0 {
		return "nothing would be done"
	}
	todo := make([]string, len(plan.Steps))
	for i, s := range plan.Steps {
		todo[i] = s.String()
	}
	return "would " + strings.Join(todo, "; ")
}
