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

// Pass is one look at one object: what is observed, and the record of what should be. It is valid during one call of
// Reconcile or Finalize and is not safe for concurrent use.
type Pass[T Object] struct {
	// Object is a private copy, never older than the operator's own last write of it. What Reconcile leaves in its
	// status is stored, in one request, if it differs; changes to anything else are ignored.
	Object T
	// Log carries the object's name.
	Log logr.Logger
	// Now is the time of this pass. Use it instead of time.Now, so that a pass can be repeated.
	Now time.Time
	// Namespaces are those that the operator is restricted to; none means all. Never change them.
	Namespaces []string

	record
}

// record is the part of a pass that does not depend on the kind of the object.
type record struct {
	seen     *snapshot
	plan     []*step
	planned  map[childID]bool
	turn     turn
	excerpts *excerpts
	err      error // the first misuse of the pass, reported when the pass ends
	unready  *verdict
	idle     bool
	requeue  time.Duration
	events   []event
	onStored []func()
	abandons map[childID]bool
	refs     referrer
	troubles patience
	known    map[types.UID]readiness
	late     map[childID]bool
	keeps    []schema.GroupVersionKind // of which a clean-up hands children over
	reports  []func([]conditions.Child)
}

type event struct{ kind, reason, message string }

// Child is one object in the plan of a pass, of kind C.
type Child[C client.Object] struct {
	step   *step
	before client.Object // nil if there was none
	live   C             // until it is copied, what was applied
	copied bool
}

// Live returns a copy of the child as it was observed before this pass, or an empty object of its kind if it does not
// exist. Never nil.
func (c *Child[C]) Live() C {
	if !c.copied {
		c.live, c.copied = asKind(c.before, c.live), true
	}
	return c.live
}

// Exists reports whether the child existed before this pass and is not being deleted.
func (c *Child[C]) Exists() bool { return c.step.live != nil && !c.step.terminating }

func (c *Child[C]) planned() *step { return c.step }

// Planned is any [Child].
type Planned interface{ planned() *step }

// Apply records that the object should exist as given: the fields that are set, and no others, are enforced (the rules
// are those of [apply.NewIntent]). The object belongs to the pass afterwards. Its namespace is that of p.Object unless it
// names another or its kind has none. The child goes with its parent, and when a later pass does not apply it: p.Object
// becomes its controller or, where Kubernetes allows no owner reference, is named by marks and gets a finalizer.
// An object of that name that p.Object does not control is never written (see [Adopt] and [ConflictReason]).
func Apply[T Object, C client.Object](p *Pass[T], desired C, opts ...ApplyOption) *Child[C] {
	s := &step{desired: desired}
	for _, opt := range opts {
		opt(s)
	}
	p.add(s)
	return &Child[C]{step: s, before: s.live, live: desired}
}

// Live returns a copy of the child of that type and name as it is observed, and whether it exists. Only children of
// p.Object, of the kinds that the operator owns, are visible.
func Live[C client.Object, T Object](p *Pass[T], like C) (C, bool) {
	s := &step{desired: like}
	p.observe(s)
	return asKind(s.live, like), s.live != nil
}

// Observed returns copies of the objects of that kind, which the operator observes, that are part of p.Object, by name.
func Observed[C client.Object, T Object](p *Pass[T], like C) []C {
	gvk, err := apiutil.GVKForObject(like, p.seen.kinds.scheme)
	if err == nil && !slices.Contains(p.seen.kinds.observed, gvk) {
		err = fmt.Errorf("kind %s is not observed: add it to Observes", gvk.Kind)
	}
	if err != nil {
		p.fail(err)
		return nil
	}
	all := make([]C, len(p.seen.observed[gvk]))
	for i, o := range p.seen.observed[gvk] {
		all[i] = asKind(o, like)
	}
	slices.SortFunc(all, func(a, b C) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// ForceDelete deletes a child that is being deleted, and that this pass does not apply, without waiting for the node or
// whoever else still has to confirm its end. Its process may go on: only do this if you know that it does not.
func ForceDelete[T Object](p *Pass[T], child client.Object) {
	s := &step{desired: child}
	p.observe(s)
	if p.abandons == nil {
		p.abandons = map[childID]bool{}
	}
	p.abandons[s.id()] = true
}

// SetCondition writes a condition of the operator's own. Ready, Reconciling and Stalled are the SDK's.
func (p *Pass[T]) SetCondition(
	conditionType string, status metav1.ConditionStatus, reason, format string, args ...any,
) {
	switch conditionType {
	case conditions.Ready, conditions.Reconciling, conditions.Stalled, conditions.Deleting:
		p.fail(fmt.Errorf("condition %s is computed by the SDK: use NotReady, Idle, Wait or Invalid", conditionType))
	default:
		conditions.Set(p.Object, conditionType, status, reason, fmt.Sprintf(format, args...))
	}
}

// NotReady makes the object Ready=False and Reconciling=True with this reason although the plan is carried out and all
// children are fine. Of several calls the first counts.
func (p *Pass[T]) NotReady(reason, format string, args ...any) {
	if p.unready == nil {
		p.unready = &verdict{reason: reason, message: fmt.Sprintf(format, args...)}
	}
}

// Suspended makes the object Ready=False, and neither Reconciling nor Stalled: it is deliberately not working, for instance
// suspended. The plan is carried out.
func (p *Pass[T]) Suspended(reason, format string, args ...any) {
	p.NotReady(reason, format, args...)
	p.idle = true
}

// RequeueAfter asks for another pass after this time, in addition to those that events cause. Of several calls the
// shortest time counts.
func (p *Pass[T]) RequeueAfter(d time.Duration) {
	if d > 0 && (p.requeue == 0 || d < p.requeue) {
		p.requeue = d
	}
}

// Event records a Normal event about the object. Events tell what happened, so record one only in the pass that changes
// something; it is sent after the status was stored.
func (p *Pass[T]) Event(reason, format string, args ...any) {
	p.events = append(p.events, event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)})
}

// Warn records a Warning event. See [Pass.Event].
func (p *Pass[T]) Warn(reason, format string, args ...any) {
	p.events = append(p.events, event{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)})
}

// OnStatusUpdated calls f after the status of this pass was stored, and not at all if it did not differ or could not be
// stored. It is for what must happen once for each change of the status, such as counting it in a metric.
func (p *Pass[T]) OnStatusUpdated(f func()) { p.onStored = append(p.onStored, f) }

// Stall calls f when the plan was carried out, with what became of each child in the order of the plan, before the status
// is stored: f may write p.Object.Status. It is not called in a pass that fails as a whole.
func (p *Pass[T]) Report(f func(children []conditions.Child)) { p.reports = append(p.reports, f) }

// tell calls the reports.
func (r *record) tell(ctx context.Context) (err error) {
	defer recoverPanic(ctx, &err)
	if len(r.reports) == 0 {
		return nil
	}
	children := make([]conditions.Child, len(r.plan))
	for i, s := range r.plan {
		children[i] = s.told()
	}
	for _, f := range r.reports {
		f(slices.Clone(children))
	}
	return nil
}

// OrphanChildren makes Finalize hand children over to nobody instead of letting garbage collection delete them: those of
// these kinds, or all if none is given, lose their reference to p.Object before that goes. In Reconcile it does the same for
// those that the plan no longer has. Deleting the object with foreground propagation deletes them nevertheless, because the
// garbage collector is faster.
func (p *Pass[T]) OrphanChildren(kinds ...client.Object) {
	if len(kinds) == 0 {
		p.keeps = slices.Clone(p.seen.kinds.owned)
	}
	for _, o := range kinds {
		gvk, err := apiutil.GVKForObject(o, p.seen.kinds.scheme)
		if err != nil {
			p.fail(fmt.Errorf("finding the kind of %T: %w", o, err))
		}
		p.keeps = append(p.keeps, gvk)
	}
}

func (r *record) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// add puts a step into the plan.
func (r *record) add(s *step) {
	r.observe(s)
	s.known = r.known
	if s.disowns && r.seen.kinds.partial[s.gvk] {
		r.fail(fmt.Errorf("%s has a field disowned, and only metadata of its kind is watched: take MetadataOnly out of Owns", s))
		return
	}
	if !slices.Contains(r.seen.kinds.owned, s.gvk) {
		version, kind := s.gvk.ToAPIVersionAndKind()
		r.fail(fmt.Errorf("%s is of a kind (%s %s) that is not watched: add it to Owns", s, version, kind))
		return
	}
	if r.planned[s.id()] {
		r.fail(fmt.Errorf("%s is applied twice in one pass", s))
		return
	}
	if s.fill != nil && !r.seen.kinds.partial[s.gvk] {
		r.fail(fmt.Errorf("%s is filled when it is sent, and its kind is watched in full: add MetadataOnly in Owns", s))
		return
	}
	if r.planned == nil {
		r.planned = map[childID]bool{}
	}
	r.planned[s.id()] = true
	r.plan = append(r.plan, s)
}

// observe fills in what is known of the step's object.
func (r *record) observe(s *step) {
	if err := r.seen.identify(s, r.refs.key.Namespace); err != nil {
		r.fail(err)
		return
	}
	if live, ok := r.seen.children[s.id()]; ok {
		s.live, s.terminating = live.object, live.terminating
	}
}

// ApplyOption refines one [Apply].
type ApplyOption func(*step)

// HoldBack leaves the child as it is in this pass, or absent, for a reason: what [Wait], [Invalid] or [Ref] returned. That
// is the object's, too, as if Reconcile had returned it; but the rest of the plan is carried out, apart from what [After] or
// [AfterCreated] has wait for the child.
func HoldBack(reason error) ApplyOption { return func(s *step) { s.withheld = reason } }

// CreateOnly makes the child once and never changes it afterwards, as for generated credentials.
func CreateOnly() ApplyOption { return func(s *step) { s.createOnly = true } }

// After holds the child back, neither creating nor changing it, until these children are ready.
func After(children ...Planned) ApplyOption {
	return func(s *step) {
		for _, c := range children {
			s.after = append(s.after, c.planned())
		}
	}
}

// AfterCreated holds the child back, neither creating nor changing it, while one of these is not there as a child of p.Object:
// it could not be made, or what has its name is somebody else's. It is for what would use or change whatever has that name.
// Unlike [After] it does not wait until they are ready.
func AfterCreated(children ...Planned) ApplyOption {
	return func(s *step) {
		for _, c := range children {
			s.onceExists = append(s.onceExists, c.planned())
		}
	}
}

// Unmanaged leaves a field to others; see [apply.Unmanaged].
func Unmanaged(path string) ApplyOption {
	return func(s *step) { s.intent, s.disowns = append(s.intent, apply.Unmanaged(path)), true }
}

// Zero enforces the zero value of a field; see [apply.Zero].
func Zero(path string) ApplyOption {
	return func(s *step) { s.intent = append(s.intent, apply.Zero(path)) }
}

// ReadyWhen replaces the way in which the child's readiness is read. The message says what is missing.
func ReadyWhen[C client.Object](ready func(live C) (ok bool, message string)) ApplyOption {
	return func(s *step) {
		s.ready = func(o client.Object) (bool, string) {
			c, ok := o.(C)
			if !ok { // of which only metadata is watched
				c = asKind(o, object.New[C]())
			}
			return ready(c)
		}
	}
}

// HoldUntil keeps the child from vanishing unseen: until counted is true in a pass, deleting it only marks it, so that
// the operator can record its existence or its end in p.Object.Status first. Then it is released, by one request that
// changes nothing else of it. A child that leaves the plan is released after the status of that pass was stored. This is
// how Kubernetes' own Job controller counts its pods exactly once.
func HoldUntil(counted bool) ApplyOption {
	return func(s *step) { s.hold = !counted }
}

// Retain lets the child outlive p.Object, in whatever way that is deleted and whether the operator runs or not: marks say
// whose it is, and no owner reference, so that nothing collects it. Nor is it deleted when the plan no longer has it. A
// later object may take it over by [AdoptIf]. The option may come and go; what counts is what it was when p.Object was seen
// last. It is for children in the namespace of p.Object.
func Retain() ApplyOption { return func(s *step) { s.kept = true } }

// ImmutablePolicy says what to do when the API server refuses a change because the field cannot change.
type ImmutablePolicy int

const (
	// Stall makes the object Stalled with reason ImmutableField. This is the default.
	Stall ImmutablePolicy = iota
	// Recreate deletes the child and creates it anew.
	Recreate
	// RecreateOrphan is Recreate without deleting what the child itself controls, as for a StatefulSet and its pods.
	RecreateOrphan
)

// OnImmutable sets what to do when a change is refused because the field cannot change. A child is only ever deleted
// for that if the API server confirmed, in a dry run, that it would accept the new one.
func OnImmutable(policy ImmutablePolicy) ApplyOption {
	return func(s *step) { s.immutable = policy }
}

// Adopt takes over an object of the child's name that exists and that nobody controls, as if the operator had made it: it
// gets the controller reference and what the child sets, the rest of it stays, and from then on it is deleted like any
// other child. With [CreateOnly] it gets the reference alone. An object that has a controller, or that is being deleted, is
// refused as without this option; and so is one of which a field would have to change that cannot, whatever [OnImmutable]
// says. Nothing is taken over for a p.Object that has been deleted meanwhile, of which the API server is asked.
func Adopt() ApplyOption { return AdoptIf(func(client.Object) bool { return true }) }

// AdoptIf is [Adopt] for those objects only of which the function says so, such as what a former p.Object left behind. The
// last of several counts.
func AdoptIf(may func(client.Object) bool) ApplyOption { return func(s *step) { s.adopt = may } }

// ConflictReason sets the reason of the Ready condition for an object of the child's name that p.Object does not
// control. The default is ResourceConflict.
func ConflictReason(reason string) ApplyOption {
	return func(s *step) { s.conflictReason = reason }
}
