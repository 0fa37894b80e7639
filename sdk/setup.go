package sdk

import (
	"context"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/planner"
	"github.com/homeostat-dev/homeostat/sdk/internal/reconciler"
	"github.com/homeostat-dev/homeostat/sdk/internal/setup"
)

// SetupOption configures one use of an operator.
type SetupOption func(*setup.Options)

// InNamespaces restricts the operator to objects in these namespaces. The default, none, means all.
func InNamespaces(names ...string) SetupOption {
	return func(s *setup.Options) { s.Namespaces = append(s.Namespaces, names...) }
}

// Workers sets the number of objects that are reconciled concurrently. The default is 8.
func Workers(n int) SetupOption {
	return func(s *setup.Options) { s.Workers = n }
}

// SetupWithManager adds the operator to a manager. The operator brings its own caches, because they hold less than a general
// cache would. It uses the manager's configuration, scheme, leader election and metrics. If T is not installed in the
// cluster, the operator is not ready and waits for the CRD without a limit. The error names every invalid field of the
// operator.
func (op *Operator[T]) SetupWithManager(mgr manager.Manager, opts ...SetupOption) error {
	if err := op.validate(); err != nil {
		return err
	}
	if err := op.AddToScheme(mgr.GetScheme()); err != nil {
		return fmt.Errorf("registering the types of operator %s: %w", op.Name, err)
	}
	s := setup.New(opts)
	return reconciler.New(op.definition(), mgr, s.Namespaces, s.Workers)
}

// Describe returns the name and the description of the operator. It implements program.Runnable.
func (op *Operator[T]) Describe() (name, doc string) { return op.Name, op.Doc }

// PrintPlans prints the plan of a reconcile for each object in the cluster, as the flag --dry-run of a program does. It
// reads the objects in these namespaces, or in all if there are none, and writes nothing. It implements program.Runnable.
func (op *Operator[T]) PrintPlans(ctx context.Context, cfg *rest.Config, namespaces []string, out io.Writer) error {
	return planner.Print(ctx, op.definition(), cfg, namespaces, out)
}

// definition returns the operator's definition without its type parameter.
func (op *Operator[T]) definition() *desired.Definition {
	d := &desired.Definition{
		Name: op.Name, FinalizerName: op.finalizerName(), FinalizeTimeout: op.FinalizeTimeout, Resync: op.Resync,
		Owns: op.Owns, Observes: op.Observes, AddToScheme: op.AddToScheme, Validate: op.validate,
		New:       func() desired.Object { return object.New[T]() },
		Reconcile: adapt(op.Reconcile),
		NeedsFinalizer: func(o desired.Object) bool {
			return op.Finalize != nil && (op.NeedsFinalizer == nil || op.NeedsFinalizer(as[T](o)))
		},
		Selects: func(name types.NamespacedName) bool { return op.Selects == nil || op.Selects(name) },
		Paused:  func(o desired.Object) bool { return op.Paused != nil && op.Paused(as[T](o)) },
		DryRun:  func(o desired.Object) bool { return op.DryRun != nil && op.DryRun(as[T](o)) },
		Orphan:  op.Orphan,
	}
	d.External = op.External.engine
	if op.Connect != nil {
		d.Connect = op.connect
	}
	if op.Finalize != nil {
		d.Finalize = adapt(op.Finalize)
	}
	if op.Summarize != nil {
		d.Summarize = func(o desired.Object) { op.Summarize(as[T](o)) }
	}
	return d
}

// adapt calls a function of the operator with a [Pass] of its type. Changes of the object are kept even if it panics.
func adapt[T Object](f func(context.Context, *Pass[T]) error) func(context.Context, *desired.Pass) error {
	return func(ctx context.Context, p *desired.Pass) error {
		typed := &Pass[T]{
			Object: as[T](p.Object), Log: p.Log, Now: p.Now, Namespaces: p.Namespaces, record: &p.Record,
		}
		p.Replaced = func(o desired.Object) { typed.Object = as[T](o) }
		defer func() { p.Object = typed.Object }()
		return f(ctx, typed)
	}
}

func as[T Object](o desired.Object) T {
	t, _ := o.(T) // the operator has one kind
	return t
}
