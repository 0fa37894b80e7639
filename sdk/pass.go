package sdk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// Pass is one reconcile of one object: its input (the observed state) and its record (the desired state). It is valid during
// one call of Reconcile or Finalize and is not safe for concurrent use.
type Pass[T Object] struct {
	// Object is a private copy, never older than the operator's own last write of it. Its status is stored after Reconcile,
	// in one request, if it differs. Changes of other fields are ignored.
	Object T
	// Log carries the object's name.
	Log logr.Logger
	// Now is the time of this reconcile. Use it instead of time.Now to keep Reconcile a function of its input.
	Now time.Time
	// Namespaces are the namespaces that the operator is restricted to; none means all. They are read-only.
	Namespaces []string

	passRecord
}

// passRecord is the part of a [Pass] that does not depend on the kind of the object.
type passRecord struct {
	snapshot        *snapshot
	plan            []*plannedChild
	planned         map[childID]bool
	budget          writeBudget
	derived         *derivedCache
	err             error // the first misuse of the pass, reported at its end
	override        *readyOverride
	suspended       bool
	requeue         time.Duration
	events          []event
	onStatusUpdated []func()
	forceDeletes    map[childID]bool
	refs            referenceReader
	retries         retryTracker
	readinessCache  map[types.UID]readiness
	failedLast      map[childID]bool
	orphanKinds     []schema.GroupVersionKind // kinds of children to orphan in a clean-up
	reportFuncs     []func([]conditions.Child)
}

type event struct{ kind, reason, message string }

// Child is one object in the plan of a reconcile, of kind C.
type Child[C client.Object] struct {
	step   *plannedChild
	before client.Object // nil if it did not exist
	live   C             // the applied object, until Live replaces it by a copy of before
	copied bool
}

// Live returns a copy of the child as it was observed before this reconcile, or an empty object of its kind if it did not
// exist. It never returns nil.
func (c *Child[C]) Live() C {
	if !c.copied {
		c.live = asType(c.before, c.live)
		c.copied = true
	}
	return c.live
}

// Exists reports whether the child existed before this reconcile and was not being deleted.
func (c *Child[C]) Exists() bool { return c.step.live != nil && !c.step.terminating }

func (c *Child[C]) planned() *plannedChild { return c.step }

// Planned is any [Child].
type Planned interface{ planned() *plannedChild }

// Apply records the desired state of a child. Fields that are set are enforced, other fields are not (the rules are those of
// [apply.NewIntent]). The pass owns the object afterwards. Its namespace defaults to that of p.Object if its kind is
// namespaced. p.Object becomes the controller of the child. Where Kubernetes allows no owner reference, the child gets the
// owner label and p.Object gets a finalizer. The child is deleted with p.Object, and when a later reconcile does not apply
// it. A conflicting object of that name is never written (see [Adopt] and [ConflictReason]).
func Apply[T Object, C client.Object](p *Pass[T], desired C, opts ...ApplyOption) *Child[C] {
	s := &plannedChild{desired: desired}
	for _, opt := range opts {
		opt(s)
	}
	p.add(s)
	return &Child[C]{step: s, before: s.live, live: desired}
}

// Live returns a copy of the observed child of that type and name, and whether it exists. It finds only children of
// p.Object, of the kinds that the operator owns. It is a function because Go methods have no type parameters.
func Live[C client.Object, T Object](p *Pass[T], like C) (C, bool) {
	s := &plannedChild{desired: like}
	p.observe(s)
	return asType(s.live, like), s.live != nil
}

// Observed returns copies of the objects of an observed kind that belong to p.Object, ordered by name. The kind must be
// listed in [Operator.Observes].
func Observed[C client.Object, T Object](p *Pass[T], like C) []C {
	gvk, err := apiutil.GVKForObject(like, p.snapshot.kinds.scheme)
	if err == nil && !slices.Contains(p.snapshot.kinds.observed, gvk) {
		err = fmt.Errorf("kind %s is not observed: add it to Observes", gvk.Kind)
	}
	if err != nil {
		p.fail(err)
		return nil
	}
	all := make([]C, len(p.snapshot.observed[gvk]))
	for i, o := range p.snapshot.observed[gvk] {
		all[i] = asType(o, like)
	}
	slices.SortFunc(all, func(a, b C) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// ForceDelete deletes a terminating child with a grace period of zero, without waiting for the confirmation of its node or
// another controller. The child must not be applied in the same reconcile. Its processes may continue to run: use it only if
// they are known to have stopped.
func ForceDelete[T Object](p *Pass[T], child client.Object) {
	s := &plannedChild{desired: child}
	p.observe(s)
	if p.forceDeletes == nil {
		p.forceDeletes = map[childID]bool{}
	}
	p.forceDeletes[s.id()] = true
}

// SetCondition writes a condition that the operator defines. Ready, Reconciling, Stalled and Deleting are reserved for the
// SDK.
func (p *Pass[T]) SetCondition(
	conditionType string, status metav1.ConditionStatus, reason, format string, args ...any,
) {
	switch conditionType {
	case conditions.Ready, conditions.Reconciling, conditions.Stalled, conditions.Deleting:
		p.fail(fmt.Errorf("condition %s is computed by the SDK: use NotReady, Suspended, Wait or Invalid", conditionType))
	default:
		conditions.Set(p.Object, conditionType, status, reason, fmt.Sprintf(format, args...))
	}
}

// NotReady sets Ready=False and Reconciling=True with this reason, even if all children are ready. The plan is still carried
// out. The first call in a reconcile wins.
func (p *Pass[T]) NotReady(reason, format string, args ...any) {
	if p.override == nil {
		p.override = &readyOverride{reason: reason, message: fmt.Sprintf(format, args...)}
	}
}

// Suspended sets Ready=False, and neither Reconciling nor Stalled: the object is deliberately not working. The plan is still
// carried out.
func (p *Pass[T]) Suspended(reason, format string, args ...any) {
	p.NotReady(reason, format, args...)
	p.suspended = true
}

// RequeueAfter requests another reconcile after this time, in addition to those that events cause. The shortest time of
// several calls wins.
func (p *Pass[T]) RequeueAfter(d time.Duration) {
	if d > 0 && (p.requeue == 0 || d < p.requeue) {
		p.requeue = d
	}
}

// Event records a Normal event about the object. It is sent after the status was stored. Record an event only in the
// reconcile that changes something: an event reports a change, not a state.
func (p *Pass[T]) Event(reason, format string, args ...any) {
	p.events = append(p.events, event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)})
}

// Warn records a Warning event. See [Pass.Event].
func (p *Pass[T]) Warn(reason, format string, args ...any) {
	p.events = append(p.events, event{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)})
}

// OnStatusUpdated calls f after the status of this reconcile was stored. It does not call f if the status did not differ or
// was not stored. Use it for work that belongs to each change of the status, such as counting it in a metric.
func (p *Pass[T]) OnStatusUpdated(f func()) { p.onStatusUpdated = append(p.onStatusUpdated, f) }

// Report calls f after the plan was carried out and before the status is stored, with the result of each child in the order
// of the plan. f may write p.Object.Status. It is not called if the whole reconcile fails.
func (p *Pass[T]) Report(f func(children []conditions.Child)) {
	p.reportFuncs = append(p.reportFuncs, f)
}

// runReportFuncs calls the functions of [Pass.Report].
func (r *passRecord) runReportFuncs(ctx context.Context) (err error) {
	defer recoverPanic(ctx, &err)
	if len(r.reportFuncs) == 0 {
		return nil
	}
	children := make([]conditions.Child, len(r.plan))
	for i, s := range r.plan {
		children[i] = s.childStatus()
	}
	for _, f := range r.reportFuncs {
		f(slices.Clone(children))
	}
	return nil
}

// OrphanChildren makes Finalize orphan children instead of leaving them to garbage collection: children of these kinds, or
// all children if no kind is given, lose their owner reference before p.Object is deleted. In Reconcile it orphans the
// children that are no longer in the plan, instead of pruning them. Foreground deletion of p.Object deletes the children
// nevertheless, because the garbage collector is faster.
func (p *Pass[T]) OrphanChildren(kinds ...client.Object) {
	if len(kinds) == 0 {
		p.orphanKinds = slices.Clone(p.snapshot.kinds.owned)
	}
	for _, o := range kinds {
		gvk, err := apiutil.GVKForObject(o, p.snapshot.kinds.scheme)
		if err != nil {
			p.fail(fmt.Errorf("finding the kind of %T: %w", o, err))
		}
		p.orphanKinds = append(p.orphanKinds, gvk)
	}
}

func (r *passRecord) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// add appends a child to the plan.
func (r *passRecord) add(s *plannedChild) {
	r.observe(s)
	s.readinessCache = r.readinessCache
	if s.hasUnmanaged && r.snapshot.kinds.partial[s.gvk] {
		r.fail(fmt.Errorf("%s has a field disowned, and only metadata of its kind is watched: take MetadataOnly out of Owns", s))
		return
	}
	if !slices.Contains(r.snapshot.kinds.owned, s.gvk) {
		version, kind := s.gvk.ToAPIVersionAndKind()
		r.fail(fmt.Errorf("%s is of a kind (%s %s) that is not watched: add it to Owns", s, version, kind))
		return
	}
	if r.planned[s.id()] {
		r.fail(fmt.Errorf("%s is applied twice in one pass", s))
		return
	}
	if s.content != nil && !r.snapshot.kinds.partial[s.gvk] {
		r.fail(fmt.Errorf("%s is filled when it is sent, and its kind is watched in full: add MetadataOnly in Owns", s))
		return
	}
	if r.planned == nil {
		r.planned = map[childID]bool{}
	}
	r.planned[s.id()] = true
	r.plan = append(r.plan, s)
}

// observe sets the observed state of a planned child.
func (r *passRecord) observe(s *plannedChild) {
	if err := r.snapshot.identify(s, r.refs.key.Namespace); err != nil {
		r.fail(err)
		return
	}
	if live, ok := r.snapshot.children[s.id()]; ok {
		s.live = live.object
		s.terminating = live.terminating
	}
}

// ApplyOption configures one [Apply].
type ApplyOption func(*plannedChild)

// HoldBack neither creates nor updates the child in this reconcile, for the given reason: an error of [Wait], [Invalid] or
// [Ref]. The reason becomes the reason of p.Object, as if Reconcile had returned the error. The rest of the plan is carried
// out, except for children that wait for this one with [After] or [AfterCreated].
func HoldBack(reason error) ApplyOption { return func(s *plannedChild) { s.heldBack = reason } }

// CreateOnly creates the child once and never updates it, as for generated credentials.
func CreateOnly() ApplyOption { return func(s *plannedChild) { s.createOnly = true } }

// After holds the child back, neither creating nor updating it, until these children are ready.
func After(children ...Planned) ApplyOption {
	return func(s *plannedChild) {
		for _, c := range children {
			s.after = append(s.after, c.planned())
		}
	}
}

// AfterCreated holds the child back, neither creating nor updating it, until each of these exists as a child of p.Object. A
// child does not exist if its creation failed or if a conflicting object has its name. Use it for a child that refers to
// another by name. Unlike [After] it does not wait for readiness.
func AfterCreated(children ...Planned) ApplyOption {
	return func(s *plannedChild) {
		for _, c := range children {
			s.afterCreated = append(s.afterCreated, c.planned())
		}
	}
}

// Unmanaged leaves a field to other field managers; see [apply.Unmanaged].
func Unmanaged(path string) ApplyOption {
	return func(s *plannedChild) {
		s.intent = append(s.intent, apply.Unmanaged(path))
		s.hasUnmanaged = true
	}
}

// Zero enforces the zero value of a field; see [apply.Zero].
func Zero(path string) ApplyOption {
	return func(s *plannedChild) { s.intent = append(s.intent, apply.Zero(path)) }
}

// ReadyWhen replaces the readiness check of the child. The message describes the missing condition.
func ReadyWhen[C client.Object](ready func(live C) (ok bool, message string)) ApplyOption {
	return func(s *plannedChild) {
		s.ready = func(o client.Object) (bool, string) {
			c, ok := o.(C)
			if !ok { // only metadata is watched
				c = asType(o, object.New[C]())
			}
			return ready(c)
		}
	}
}

// HoldUntil adds a tracking finalizer to the child until recorded is true. Deletion of the child then completes only after
// the operator has recorded the child's existence or its end in p.Object.Status. The finalizer is removed by one request
// that changes nothing else. If the child leaves the plan, the finalizer is removed after the status of that reconcile was
// stored. The Job controller of Kubernetes counts its pods in the same way.
func HoldUntil(counted bool) ApplyOption {
	return func(s *plannedChild) { s.hold = !counted }
}

// Retain makes the child outlive p.Object, however p.Object is deleted and whether or not the operator is running. The child
// gets the owner label instead of an owner reference, so that garbage collection ignores it. It is not pruned when it leaves
// the plan. A later object may adopt it with [AdoptIf]. The option may be added and removed at any time: its state in the
// last reconcile before the deletion of p.Object applies. The child must be in the namespace of p.Object.
func Retain() ApplyOption { return func(s *plannedChild) { s.retain = true } }

// ImmutablePolicy selects the reaction to a change that the API server rejects because a field is immutable.
type ImmutablePolicy int

const (
	// Stall makes p.Object Stalled with reason ImmutableField. It is the default.
	Stall ImmutablePolicy = iota
	// Recreate deletes the child and creates it again.
	Recreate
	// RecreateOrphan is Recreate with orphan deletion: objects that the child controls remain, such as the pods of a
	// StatefulSet.
	RecreateOrphan
)

// OnImmutable sets the reaction to a change of an immutable field. A child is deleted for this reason only after the API
// server confirmed, in a dry run, that it would accept the new one.
func OnImmutable(policy ImmutablePolicy) ApplyOption {
	return func(s *plannedChild) { s.immutable = policy }
}

// Adopt takes over an existing object of the child's name that has no controller. The object gets the controller reference
// and the fields of the child; its other fields remain. From then on it is deleted like any other child. With [CreateOnly]
// it gets the reference alone. An object that has a controller, or that is being deleted, is a conflict, as without this
// option. An object with an immutable field that would change is a conflict too, independent of [OnImmutable]. Before an
// adoption p.Object is read again from the API server, and no adoption happens if p.Object is being deleted.
func Adopt() ApplyOption { return AdoptIf(func(client.Object) bool { return true }) }

// AdoptIf is [Adopt] limited to objects for which the function returns true, such as the children of a predecessor. The last
// of several options wins.
func AdoptIf(may func(client.Object) bool) ApplyOption {
	return func(s *plannedChild) { s.mayAdopt = may }
}

// ConflictReason sets the reason of the Ready condition for a conflicting object: one of the child's name that p.Object does
// not control. The default is ResourceConflict.
func ConflictReason(reason string) ApplyOption {
	return func(s *plannedChild) { s.conflictReason = reason }
}
