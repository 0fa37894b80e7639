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

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/external"
)

// Object is a custom resource that an [Operator] reconciles: an API object with a status that embeds [conditions.Status].
type Object interface {
	client.Object
	CommonStatus() *conditions.Status
}

var _ conditions.Object = Object(nil)

// Operator defines how objects of kind T are reconciled. It is a plain value without state: a program, an existing manager
// ([Operator.SetupWithManager]) and tests use the same value. Its fields must not change after the first use.
type Operator[T Object] struct {
	// Name identifies the operator. It is the field manager of all applied objects, the value of the managed-by label of
	// every child, and the name of the controller and of its leader election. It must be a DNS label and must not change
	// between versions. Required.
	Name string

	// Doc describes the operator in one sentence. It is the beginning of the program's --help. Optional.
	Doc string

	// AddToScheme registers T and the owned kinds that are not part of client-go. Required.
	AddToScheme func(*runtime.Scheme) error

	// Owns lists one (empty) object of each kind that Reconcile applies, except T. These kinds are watched. A child of these
	// kinds that a complete reconcile did not apply is pruned: the newest first, and children of the same second in the
	// reverse order of this list. Pruning does not wait until a replacement is ready: continue to apply an object for as
	// long as it is needed. A kind may be missing in the cluster (see [Installed]), and may be cached as metadata only (see
	// [MetadataOnly]).
	Owns []client.Object

	// Observes lists one (empty) object of each kind that Reconcile reads with [Observed] and does not apply, such as the
	// pods of a Deployment. Only objects with [ManagedByLabel] and, in the namespace of the object of kind T, with
	// [InstanceLabel] set to its name are seen. The template of the child must set both labels. Observed objects are never
	// written.
	Observes []client.Object

	// External has the kinds of resources outside of the cluster that Reconcile records with [External]: see
	// [ExternalKinds]. T has an [external.Resources] in its status. Optional.
	External ExternalKindSet

	// Connect returns the account and the credentials with which the requests for the external resources of p.Object of one
	// kind are made, if they depend on the object. It is called in each reconcile that may need them, also while p.Object is
	// being deleted, and not in a dry run. It may only read: a Secret that it reads with [Ref] is watched, so that its
	// creation and its rotation cause a reconcile. Its errors have the meaning of those of Reconcile, and concern only the
	// external resources: return [Wait] if the Secret does not exist. The resources stay as they are then, and p.Object is
	// not ready. Nil means that the functions of the kinds have what they need.
	Connect func(ctx context.Context, p *Pass[T], kind string) (external.Connection, error)

	// Reconcile records the desired children of p.Object with [Apply] and writes p.Object.Status. It makes no request: its
	// record is carried out after it returned nil. It is called after every relevant change and must be level-based: it
	// computes the desired state from the observed state, never from events. Shutdown does not cancel the context, because a
	// reconcile in progress is completed.
	//
	// It may also return [Wait] (an external condition must be met first), [Invalid] (the spec must change first) or any
	// other error, which is retried with exponential backoff. Nothing is applied or pruned in these cases. Required.
	Reconcile func(ctx context.Context, p *Pass[T]) error

	// Summarize is called at the end of every reconcile, including failed ones, before the status is stored. The status then
	// has the conditions Ready, Reconciling and Stalled of this reconcile. Summarize may write fields that follow from them,
	// such as a phase, and may replace the reason and the message of Ready, but not its status. It is not called while the
	// object is paused or being deleted. Optional.
	Summarize func(T)

	// Finalize performs the clean-up that garbage collection cannot do. It is called until it returns nil, with the same
	// meaning of errors as Reconcile. If it is set, T has a finalizer before the first effect of Reconcile; see
	// NeedsFinalizer. Optional.
	Finalize func(ctx context.Context, p *Pass[T]) error

	// FinalizerName is the finalizer of objects of kind T and of their tracked children. An operator that replaces another
	// one must keep its name, or the finalizer is never removed. On kinds of Kubernetes itself the name needs a domain and a
	// slash. It must not change between versions. Empty means "homeostat.dev/" and Name.
	FinalizerName string

	// NeedsFinalizer limits the finalizer to the objects for which it returns true. Nil means all objects, if Finalize is
	// set.
	NeedsFinalizer func(T) bool

	// FinalizeTimeout is the time after which the Deleting condition and an event report that the clean-up is overdue. The
	// object is kept regardless; see [ReleaseAnnotation]. Zero means 10 minutes.
	FinalizeTimeout time.Duration

	// Orphan reports whether a child is orphaned where it would be deleted: when it leaves the plan, and when the object of
	// kind T is deleted (if Finalize is set). Use it for objects that the operator adopted (see [OnAdopt]). It is called with
	// a copy of the child, with metadata alone if the kind is [MetadataOnly], and may remove further labels and annotations:
	// these changes are stored if the child is orphaned, for this reason or because of [Pass.OrphanChildren]. Nil means no
	// child.
	Orphan func(child client.Object) bool

	// Selects limits the operator to the object names for which it returns true, so that several operators can share a
	// namespace. Other objects are ignored, even while they are being deleted. Nil means all.
	Selects func(types.NamespacedName) bool

	// Paused reports whether the spec of an object requests the effect of [PausedAnnotation]. Optional.
	Paused func(T) bool

	// DryRun reports whether the spec of an object requests the effect of [DryRunAnnotation]. Optional.
	DryRun func(T) bool

	// Resync is the interval between reconciles of an object without any event, with a jitter of 10 %. The reconcile of an
	// object in its desired state makes no request. Zero means 10 minutes; a negative value disables the resync.
	Resync time.Duration
}

// Annotations of an object of kind T that control its operator.
const (
	// PausedAnnotation, with the value "true", stops the reconciliation of the object and its children. An object with the
	// operator's finalizer that is deleted remains until the pause ends.
	PausedAnnotation = "homeostat.dev/paused"
	// DryRunAnnotation, with the value "true", limits the operator to reporting its planned writes in the condition DryRun.
	// No clean-up is done either: an object that is deleted remains, as during a pause.
	DryRunAnnotation = "homeostat.dev/dry-run"
	// ReleaseAnnotation, with the value "true", removes the operator's finalizer without calling Finalize. It releases an
	// object that is being deleted and has a clean-up that can never succeed.
	ReleaseAnnotation = "homeostat.dev/release"
)

// ManagedByLabel is the label of every child; its value is the operator's name. Only objects with this label are cached.
const ManagedByLabel = "app.kubernetes.io/managed-by"

// InstanceLabel is a label of observed objects; its value is the name of the object of kind T that they belong to.
const InstanceLabel = "app.kubernetes.io/instance"

func (op *Operator[T]) finalizerName() string {
	return cmp.Or(op.FinalizerName, "homeostat.dev/"+op.Name)
}

// validate returns an error that lists every invalid field of the operator.
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
	if err := op.validateExternal(); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("operator %q is not usable: %w", op.Name, err)
	}
	return nil
}
