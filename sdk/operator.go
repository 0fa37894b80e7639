package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Object is a custom resource that an [Operator] reconciles: an API object whose status embeds [conditions.Status].
type Object interface {
	client.Object
	CommonStatus() *conditions.Status
}

var _ conditions.Object = Object(nil)

// Operator describes how objects of kind T are brought to the state that their spec asks for. It is a plain value
// without state of its own: the same value is run by [Main], by a manager of yours ([Operator.SetupWithManager]) and by
// tests. Its fields must not change once it is used.
type Operator[T Object] struct {
	// Name identifies the operator: it is the field owner of everything applied, the value of the managed-by label of
	// every child, and the name of the controller and of its leader election. It must be a DNS label and must not
	// change between versions. Required.
	Name string

	// Doc says in a sentence what the operator is for, with which the --help of its program begins. Optional.
	Doc string

	// AddToScheme registers T and those owned kinds that client-go does not know. Required.
	AddToScheme func(*runtime.Scheme) error

	// Owns lists one (empty) object of each kind that Reconcile applies, and not T. These kinds are watched, and an object
	// of these kinds that T controls and that a complete pass did not apply is deleted: the newest first, and of the same
	// second those first whose kind comes last in this list. That does not wait for what replaces it: what a pass must keep
	// until then it has to apply. A kind need not be installed in the cluster (see [Installed]),
	// and need not be kept whole (see [MetadataOnly]).
	Owns []client.Object

	// Observes lists one (empty) object of each kind that Reconcile looks at with [Observed] and does not apply: of what
	// children make, such as the pods of a Deployment. Seen are those with [ManagedByLabel] and, in the namespace of an object
	// of kind T, [InstanceLabel] with its name; a child's template has to give them both. They are never written.
	Observes []client.Object

	// Reconcile says what should exist for p.Object, by calling [Apply], and how the object is doing, by writing
	// p.Object.Status. It makes no request itself: what it recorded is carried out after it returned nil. It is called
	// after every relevant change, so it must compute its answer from what it observes, never from what happened. The
	// context is not canceled on shutdown: a pass under way is finished.
	//
	// It may also return [Wait] (something outside must happen first), [Invalid] (the spec must change first) or any
	// other error, which is retried with exponential backoff. Nothing is applied or pruned then. Required.
	Reconcile func(ctx context.Context, p *Pass[T]) error

	// Summarize is called last in a pass, however that went, before the status is stored: what it reads in the status are this
	// pass's conditions Ready, Reconciling and Stalled. It may write what follows from them, such as a phase, and give Ready
	// another reason and message; not another value. It is not called while the object is paused or being deleted. Optional.
	Summarize func(T)

	// Finalize does, before an object goes, what garbage collection cannot do. It is called until it returns nil, with
	// the same meaning of errors as Reconcile. While it is not nil, T has a finalizer from before the first effect of
	// Reconcile on; see NeedsFinalizer. Optional.
	Finalize func(ctx context.Context, p *Pass[T]) error

	// FinalizerName is the finalizer on objects of kind T and on their tracked children. An operator that takes the place of
	// another keeps that one's, or nobody would take it off; what Kubernetes's own kinds may have needs a domain and a slash
	// before the name. It must not change between versions. Empty means "homeostat.dev/" and Name.
	FinalizerName string

	// NeedsFinalizer limits the finalizer to the objects for which it returns true. Nil means all, if Finalize is set.
	NeedsFinalizer func(T) bool

	// FinalizeTimeout is how long Finalize may take before the Deleting condition and an event say that it is overdue.
	// The object is kept regardless; see [ReleaseAnnotation]. Zero means 10 minutes.
	FinalizeTimeout time.Duration

	// Selects limits the operator to the objects for whose names it returns true, so that several can share a namespace;
	// others are not touched, not even if they are being deleted. Nil means all.
	Selects func(types.NamespacedName) bool

	// Paused reports whether an object asks by its spec for what [PausedAnnotation] does. Optional.
	Paused func(T) bool

	// DryRun reports whether an object asks by its spec for what [DryRunAnnotation] does. Optional.
	DryRun func(T) bool

	// Resync is how often each object is looked at although nothing happened, give or take a tenth. A pass over an
	// object in its desired state makes no request. Zero means 10 minutes; a negative value means never.
	Resync time.Duration
}

// The annotations on an object of kind T that steer its operator.
const (
	// PausedAnnotation, with the value "true", makes the operator leave the object and its children alone. An object
	// that has the operator's finalizer and is deleted stays until the pause ends.
	PausedAnnotation = "homeostat.dev/paused"
	// DryRunAnnotation, with the value "true", makes the operator report what it would do, in the condition DryRun, and
	// write nothing else. It does not clean up either: what holds for a pause and a deletion holds here.
	DryRunAnnotation = "homeostat.dev/dry-run"
	// ReleaseAnnotation, with the value "true", makes the operator remove its finalizer without calling Finalize: the
	// way out for an object that is being deleted and whose clean-up can never succeed.
	ReleaseAnnotation = "homeostat.dev/release"
)

// ManagedByLabel is the label of every child; its value is the operator's name. Only objects with it are cached.
const ManagedByLabel = "app.kubernetes.io/managed-by"

// InstanceLabel names, on an object of a kind that is observed, the object of the operator's kind that it is part of.
const InstanceLabel = "app.kubernetes.io/instance"

const (
	defaultWorkers         = 8
	defaultResync          = 10 * time.Minute
	defaultFinalizeTimeout = 10 * time.Minute
)

func (op *Operator[T]) finalizerName() string {
	return cmp.Or(op.FinalizerName, "homeostat.dev/"+op.Name)
}

func (op *Operator[T]) needsFinalizer(o T) bool {
	return op.Finalize != nil && (op.NeedsFinalizer == nil || op.NeedsFinalizer(o))
}

// validate reports everything that is wrong with the operator's definition.
func (op *Operator[T]) validate() error {
	var errs []error
	if msgs := validation.IsDNS1123Label(op.Name); len(msgs) > 0 {
		errs = append(errs, fmt.Errorf("field Name %q: %s", op.Name, strings.Join(msgs, ", ")))
	}
	if op.AddToScheme == nil {
		errs = append(errs, errors.New("field AddToScheme is nil: set it to the AddToScheme of the kind's API package"))
	}
	if op.Reconcile == nil {
		errs = append(errs, errors.New("field Reconcile is nil: nothing would ever be done"))
	}
	if msgs := validation.IsQualifiedName(op.finalizerName()); len(msgs) > 0 {
		errs = append(errs, fmt.Errorf("field FinalizerName %q: %s", op.FinalizerName, strings.Join(msgs, ", ")))
	}
	if op.NeedsFinalizer != nil && op.Finalize == nil {
		errs = append(errs, errors.New("field NeedsFinalizer is set without Finalize"))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("operator %q is not usable: %w", op.Name, err)
	}
	return nil
}

// SetupOption configures one use of an operator.
type SetupOption func(*setup)

type setup struct {
	namespaces []string
	workers    int
}

func newSetup(opts []SetupOption) setup {
	s := setup{workers: defaultWorkers}
	for _, opt := range opts {
		opt(&s)
	}
	return s
}

// InNamespaces restricts the operator to objects in these namespaces. None, the default, means all.
func InNamespaces(names ...string) SetupOption {
	return func(s *setup) { s.namespaces = append(s.namespaces, names...) }
}

// Workers sets how many objects are worked on at a time. The default is 8.
func Workers(n int) SetupOption {
	return func(s *setup) { s.workers = n }
}

// SetupWithManager adds the operator to a manager. It brings caches of its own, because it keeps less in them than a
// general cache would; the manager's configuration, scheme, leader election and metrics are used.
// If T is not installed in the cluster, the operator is not ready and waits for that, without limit.
// It returns an error that names every field of the operator that is not usable.
func (op *Operator[T]) SetupWithManager(mgr manager.Manager, opts ...SetupOption) error {
	s := newSetup(opts)
	if err := op.validate(); err != nil {
		return err
	}
	if err := op.AddToScheme(mgr.GetScheme()); err != nil {
		return fmt.Errorf("registering the types of operator %s: %w", op.Name, err)
	}
	mgr, err := op.patiently(mgr)
	if err != nil {
		return err
	}
	return newEngine(op, mgr, s)
}
