package function

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/planner"
	"github.com/homeostat-dev/homeostat/sdk/internal/reconciler"
	"github.com/homeostat-dev/homeostat/sdk/internal/setup"
)

// Transport is the way to a function.
type Transport interface {
	// Validate returns an error if the configuration is not usable.
	Validate() error
	// Connect returns a connection for one engine. It does not wait for the function.
	Connect(log logr.Logger) Connection
}

// Connection calls a function. It is safe for concurrent use.
type Connection interface {
	// Call sends a request and returns the answer, both as JSON. The failures of the function are [CallError].
	Call(ctx context.Context, request []byte) (answer []byte, err error)
	// Close waits for the calls in progress, and ends what the connection has started. Later calls return ErrClosed.
	Close()
}

// ErrClosed is the error of a call after [Connection.Close]. The engine stops, and the reconcile has no effect.
var ErrClosed = fmt.Errorf("the connection to the function is closed: %w", apply.ErrStale)

// CallError is a failed call of a function.
type CallError struct {
	// Reason is a CamelCase word, which becomes the reason of the Ready condition.
	Reason string
	// Message is a sentence. It is equal for equal failures.
	Message string
}

// Error returns the message.
func (e *CallError) Error() string { return e.Message }

// Operator is an operator with a function in another language. Its fields must not change after the first use.
type Operator struct {
	// Config is the declaration of the operator. Required.
	Config Config
	// Function is the way to the function. Required.
	Function Transport
	// PurityChecks is the fraction of calls that are repeated with the same request: answers that differ are a failure of
	// the reconcile with reason NotDeterministic. Zero means 0.01, 1 all calls, and a negative value none.
	PurityChecks float64
}

// SetupWithManager adds the operator to a manager, like that of an sdk.Operator. The connection to the function is closed
// when the manager stops.
func (op *Operator) SetupWithManager(mgr manager.Manager, opts ...sdk.SetupOption) error {
	if err := op.validate(); err != nil {
		return err
	}
	mgr = ownScheme{mgr, runtime.NewScheme()}
	if err := op.addToScheme(mgr.GetScheme()); err != nil {
		return err
	}
	connection := op.Function.Connect(mgr.GetLogger().WithName("function"))
	if err := mgr.Add(closer{connection}); err != nil {
		return fmt.Errorf("adding the function of operator %s: %w", op.Config.Name, err)
	}
	s := setup.New(opts)
	return reconciler.New(op.definition(connection), mgr, s.Namespaces, s.Workers)
}

// SetupInNamespaces is SetupWithManager with sdk.InNamespaces.
func (op *Operator) SetupInNamespaces(mgr manager.Manager, namespaces ...string) error {
	return op.SetupWithManager(mgr, sdk.InNamespaces(namespaces...))
}

// Describe returns the name and the description of the operator.
func (op *Operator) Describe() (name, doc string) { return op.Config.Name, op.Config.Doc }

// PrintPlans prints the plan of a reconcile for each object in the cluster, and writes nothing.
func (op *Operator) PrintPlans(ctx context.Context, cfg *rest.Config, namespaces []string, out io.Writer) error {
	connection := op.Function.Connect(logr.FromContextOrDiscard(ctx))
	defer connection.Close()
	return planner.Print(ctx, op.definition(connection), inJSON(cfg), namespaces, out)
}

// closer closes a connection when the manager stops.
type closer struct{ connection Connection }

// Start implements manager.Runnable.
func (c closer) Start(ctx context.Context) error {
	<-ctx.Done()
	c.connection.Close()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica has a connection.
func (c closer) NeedLeaderElection() bool { return false }

func (op *Operator) validate() error {
	if op.Function == nil {
		return errors.New("field Function is nil: there is no function to call")
	}
	if err := errors.Join(op.Config.Validate(), op.Function.Validate()); err != nil {
		return fmt.Errorf("operator %q is not usable: %w", op.Config.Name, err)
	}
	if !op.Config.Decorates && clientgoscheme.Scheme.Recognizes(op.Config.Kind.gvk()) {
		return fmt.Errorf("kind %s is built-in and has a controller of its own: only a custom kind can be reconciled by a "+
			"function",
			op.Config.Kind)
	}
	return nil
}

// addToScheme registers the kind of the operator, in a scheme that has no other kind with its Go type.
func (op *Operator) addToScheme(scheme *runtime.Scheme) error {
	gvk := op.Config.Kind.gvk()
	list := gvk.GroupVersion().WithKind(gvk.Kind + "List")
	if op.Config.Decorates {
		scheme.AddKnownTypeWithName(gvk, &Decorated{})
		scheme.AddKnownTypeWithName(list, &DecoratedList{})
	} else {
		scheme.AddKnownTypeWithName(gvk, &Object{})
		scheme.AddKnownTypeWithName(list, &ObjectList{})
	}
	metav1.AddToGroupVersion(scheme, gvk.GroupVersion())
	return nil
}

// definition returns the operator for the engine.
func (op *Operator) definition(connection Connection) *desired.Definition {
	c := op.Config
	f := &caller{
		config: c, connection: connection, purity: cmp.Or(op.PurityChecks, defaultPurity),
		known: map[types.UID][]Reference{}, dropped: map[types.UID]string{},
	}
	d := &desired.Definition{
		Name: c.Name, FinalizerName: c.finalizer(), Resync: seconds(c.ResyncSeconds),
		AddToScheme: op.addToScheme, Validate: op.validate,
		New:            func() desired.Object { return &Object{} },
		Reconcile:      f.reconcile,
		NeedsFinalizer: c.needsFinalizer,
		Selects:        func(types.NamespacedName) bool { return true },
		Paused:         func(desired.Object) bool { return false },
		DryRun:         func(desired.Object) bool { return false },
	}
	if c.Decorates {
		d.Decorates = true
		d.New = func() desired.Object { return &Decorated{} }
	}
	if c.Finalize {
		d.Finalize = f.finalize
	}
	for _, k := range c.Owns {
		var o client.Object = ofKind(k.gvk())
		if k.MetadataOnly {
			o = sdk.MetadataOnly(o)
		}
		if len(k.ExclusiveMaps) > 0 {
			o = sdk.ExclusiveMaps(o, k.ExclusiveMaps...)
		}
		d.Owns = append(d.Owns, o)
	}
	for _, k := range c.Observes {
		d.Observes = append(d.Observes, ofKind(k.gvk()))
	}
	return d
}

func ofKind(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

// seconds returns a duration, which is at most a year.
func seconds(n float64) time.Duration {
	const year = 365 * 24 * 3600
	return time.Duration(min(n, year) * float64(time.Second))
}
