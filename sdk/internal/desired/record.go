package desired

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
	"github.com/homeostat-dev/homeostat/sdk/internal/reference"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// Record is the part of a [Pass] that the operator's function writes, and the state of the object between reconciles.
type Record struct {
	Snapshot           *observed.Snapshot
	Plan               []*Child
	planned            map[object.ID]bool
	Budget             Budget
	Derived            *reference.DerivedCache
	Err                error // the first misuse of the pass, reported at its end
	Override           *ReadyOverride
	IsSuspended        bool
	Requeue            time.Duration
	Metadata           *object.MetadataEntries // to apply to the object; nil applies none
	Unfinished         error                   // what a clean-up waits for after its plan was carried out
	Events             []Event
	StatusUpdatedFuncs []func()
	ForceDeletes       map[object.ID]bool
	References         reference.Reader
	Retries            retry.Tracker
	ReadinessCache     ReadinessCache
	PreviouslyFailed   map[object.ID]bool
	OrphanKinds        []schema.GroupVersionKind // kinds of children to orphan in a clean-up
	PlanExecutedFuncs  []func([]conditions.Child)
	ExternalKinds      []string           // that the operator knows
	External           []ExternalResource // in their order
	ExternalErr        error              // the failures of external resources, and those that are not ready yet
	IsDry              bool               // nothing is carried out
}

// Event is an event about the object, to be sent after the status was stored.
type Event struct{ Type, Reason, Message string }

// RunPlanExecutedFuncs calls the functions of sdk.Pass.OnPlanExecuted.
func (r *Record) RunPlanExecutedFuncs(ctx context.Context) (err error) {
	defer retry.RecoverPanic(ctx, &err)
	if len(r.PlanExecutedFuncs) == 0 {
		return nil
	}
	children := make([]conditions.Child, len(r.Plan))
	for i, s := range r.Plan {
		children[i] = s.Status()
	}
	for _, f := range r.PlanExecutedFuncs {
		f(slices.Clone(children))
	}
	return nil
}

// Fail records a misuse of the pass. The first one counts.
func (r *Record) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
}

// Add appends a child to the plan.
func (r *Record) Add(s *Child) {
	r.Observe(s)
	s.readinessCache = r.ReadinessCache
	if s.HasUnmanaged && r.Snapshot.Kinds.Partial[s.GVK] {
		r.Fail(fmt.Errorf("%s has a field disowned, and only metadata of its kind is watched: take MetadataOnly out of Owns", s))
		return
	}
	if s.RemoveForeign != nil && r.Snapshot.Kinds.Partial[s.GVK] {
		r.Fail(fmt.Errorf("%s needs its content, and only metadata of its kind is watched: take MetadataOnly out of Owns", s))
		return
	}
	if !slices.Contains(r.Snapshot.Kinds.Owned, s.GVK) {
		version, kind := s.GVK.ToAPIVersionAndKind()
		r.Fail(fmt.Errorf("%s is of a kind (%s %s) that is not watched: add it to Owns", s, version, kind))
		return
	}
	if r.planned[s.ID()] {
		r.Fail(fmt.Errorf("%s is applied twice in one pass", s))
		return
	}
	if s.Content != nil && !r.Snapshot.Kinds.Partial[s.GVK] {
		r.Fail(fmt.Errorf("%s is filled when it is sent, and its kind is watched in full: add MetadataOnly in Owns", s))
		return
	}
	if r.planned == nil {
		r.planned = map[object.ID]bool{}
	}
	r.planned[s.ID()] = true
	r.Plan = append(r.Plan, s)
}

// Observe sets the observed state of a planned child.
func (r *Record) Observe(s *Child) {
	if err := identify(r.Snapshot.Kinds, s, r.References.Key.Namespace); err != nil {
		r.Fail(err)
		return
	}
	if live, ok := r.Snapshot.Children[s.ID()]; ok {
		s.Live = live.Object
		s.Terminating = live.Terminating
	}
}

// identify sets the kind and the key of a planned child. home is the namespace of the parent.
func identify(kinds *observed.Kinds, c *Child, home string) error {
	gvk, err := apiutil.GVKForObject(c.Desired, kinds.Scheme)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", c.Desired, err)
	}
	kinds.DefaultNamespace(c.Desired, gvk, home)
	c.GVK = gvk
	c.Key = client.ObjectKeyFromObject(c.Desired)
	c.Home = home
	if err := kinds.CheckNamespace(c.ID()); err != nil {
		return err
	}
	c.CrossNamespace = home != "" && c.Key.Namespace != home
	if c.CrossNamespace && c.Retain {
		return fmt.Errorf("%s is in another namespace than its parent: Retain cannot keep it, OrphanChildren can", c)
	}
	return nil
}

// DropRetries drops the retry state of the children that are not in the plan.
func (r *Record) DropRetries() {
	r.Retries.RetainOnly(func(id object.ID) bool { return r.planned[id] })
}

// ExecutionOrder returns the plan in its order, with the children that failed in the last reconcile, and those that wait for
// them, moved to the end.
func (r *Record) ExecutionOrder() []*Child {
	maps.DeleteFunc(r.PreviouslyFailed, func(id object.ID, _ bool) bool { return !r.planned[id] })
	if len(r.PreviouslyFailed) == 0 {
		return r.Plan
	}
	var first, last []*Child
	isLast := map[*Child]bool{}
	for _, s := range r.Plan {
		isLast[s] = r.PreviouslyFailed[s.ID()] || slices.ContainsFunc(s.After, func(other *Child) bool { return isLast[other] })
		if isLast[s] {
			last = append(last, s)
		} else {
			first = append(first, s)
		}
	}
	return append(first, last...)
}

// HasCrossNamespace reports whether a cross-namespace child exists or is planned.
func (r *Record) HasCrossNamespace() bool {
	for _, s := range r.Plan {
		if s.CrossNamespace {
			return true
		}
	}
	for _, child := range r.Snapshot.Children {
		if child.CrossNamespace {
			return true
		}
	}
	return false
}

// ReadyOverride replaces the reason and message of Ready.
type ReadyOverride struct{ Reason, Message string }

// RequeueAfter requests another reconcile after this time. The shortest time of several calls wins.
func (r *Record) RequeueAfter(d time.Duration) {
	if d > 0 && (r.Requeue == 0 || d < r.Requeue) {
		r.Requeue = d
	}
}

// Unplanned returns the observed children that are not in the plan, in the order of their deletion: see
// [observed.Snapshot.Unplanned].
func (r *Record) Unplanned() []object.ID { return r.Snapshot.Unplanned(r.planned) }
