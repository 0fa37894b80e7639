package sdk

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/internal/planner"
)

// Plan is the result of planning a reconcile without carrying it out. Equal plans have equal text, so that they can be
// compared, stored in a file and read. See [Dry].
type Plan[T Object] struct {
	// Object is the object with the status that the reconcile would store. The children count as if the API server had stored
	// each write as it was sent.
	Object T
	// Actions are the writes of children in their order, and the held-back ones.
	Actions []Action
	// Err is the error of Reconcile, or the failure of a child. Nil if there is none.
	Err error

	objectName string
}

// Action is one planned write, or the reason for not writing.
type Action struct {
	// Verb is "create", "update", "release" (remove the tracking finalizer), "delete", "orphan" (see
	// [Pass.OrphanChildren]), "hold back" (with the reason in Reason), or, for the object itself, "add the finalizer to",
	// "remove the finalizer from" and "clean up".
	Verb string
	// Object is "Kind namespace/name", without the namespace for a child in the namespace of the object, and for a
	// cluster-scoped one.
	Object string
	// Fields are the lines of [apply.Intent.Diff].
	Fields []string
	// Reason is the reason of a held-back action.
	Reason string
}

// String returns the action in one line, without its fields.
func (a Action) String() string { return planner.Action(a).String() }

// Empty reports whether the plan has no write except that of the status.
func (p *Plan[T]) Empty() bool { return p.untyped().Empty() }

// String returns the text of the plan: the object, a line for each action with its fields below, and the Ready condition.
func (p *Plan[T]) String() string { return p.untyped().String() }

func (p *Plan[T]) untyped() *planner.Plan {
	plan := &planner.Plan{Object: p.Object, Err: p.Err, ObjectName: p.objectName}
	for _, a := range p.Actions {
		plan.Actions = append(plan.Actions, planner.Action(a))
	}
	return plan
}

// Dry plans a reconcile of the object without a cluster: it reads nothing and writes nothing. live are the existing objects:
// references of o (see [Ref]), its children and conflicting objects. All other objects of an owned kind without another
// controller count as children. An update is planned if a value differs from the applied one. Defaults, earlier applies
// and the scope of kinds outside of client-go are unknown; such kinds count as namespaced.
func Dry[T Object](ctx context.Context, op *Operator[T], o T, live ...client.Object) *Plan[T] {
	planned := planner.Offline(ctx, op.definition(), o, live...)
	plan := &Plan[T]{Object: as[T](planned.Object), Err: planned.Err, objectName: planned.ObjectName}
	for _, a := range planned.Actions {
		plan.Actions = append(plan.Actions, Action(a))
	}
	return plan
}
