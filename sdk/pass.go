package sdk

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
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

	record *desired.Record
}

// Dry reports whether this reconcile is only planned: by [Dry], by the flag --dry-run of a program or by [DryRunAnnotation].
// Code that reaches a system outside of the cluster itself, and not with [External], must not change it then.
func (p *Pass[T]) Dry() bool { return p.record.IsDry }

// SetCondition writes a condition that the operator defines. Ready, Reconciling, Stalled and Deleting are reserved for the
// SDK.
func (p *Pass[T]) SetCondition(
	conditionType string, status metav1.ConditionStatus, reason, format string, args ...any,
) {
	switch conditionType {
	case conditions.Ready, conditions.Reconciling, conditions.Stalled, conditions.Deleting:
		p.record.Fail(fmt.Errorf("condition %s is computed by the SDK: use SetNotReady, SetSuspended, Wait or Invalid",
			conditionType))
	default:
		conditions.Set(p.Object, conditionType, status, reason, fmt.Sprintf(format, args...))
	}
}

// SetNotReady sets Ready=False and Reconciling=True with this reason, even if all children are ready. The plan is still
// carried out. The first call in a reconcile wins.
func (p *Pass[T]) SetNotReady(reason, format string, args ...any) {
	if p.record.Override == nil {
		p.record.Override = &desired.ReadyOverride{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
}

// SetSuspended sets Ready=False, and neither Reconciling nor Stalled: the object is deliberately not working. The plan is
// still carried out.
func (p *Pass[T]) SetSuspended(reason, format string, args ...any) {
	p.SetNotReady(reason, format, args...)
	p.record.IsSuspended = true
}

// RequeueAfter requests another reconcile after this time, in addition to those that events cause. The shortest time of
// several calls wins.
func (p *Pass[T]) RequeueAfter(d time.Duration) {
	p.record.RequeueAfter(d)
}

// Event records a Normal event about the object. It is sent after the status was stored. Record an event only in the
// reconcile that changes something: an event reports a change, not a state.
func (p *Pass[T]) Event(reason, format string, args ...any) {
	p.record.Events = append(p.record.Events, desired.Event{
		Type: corev1.EventTypeNormal, Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}

// Warn records a Warning event. See [Pass.Event].
func (p *Pass[T]) Warn(reason, format string, args ...any) {
	p.record.Events = append(p.record.Events, desired.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}

// OnStatusUpdated calls f after the status of this reconcile was stored. It does not call f if the status did not differ or
// was not stored. Use it for work that belongs to each change of the status, such as counting it in a metric.
func (p *Pass[T]) OnStatusUpdated(f func()) {
	p.record.StatusUpdatedFuncs = append(p.record.StatusUpdatedFuncs, f)
}

// OnPlanExecuted calls f after the plan was carried out and before the status is stored, with the result of each child in
// the order of the plan. f may write p.Object.Status. It is not called if the whole reconcile fails.
func (p *Pass[T]) OnPlanExecuted(f func(children []conditions.Child)) {
	p.record.PlanExecutedFuncs = append(p.record.PlanExecutedFuncs, f)
}

// OrphanChildren makes Finalize orphan children instead of leaving them to garbage collection: children of these kinds, or
// all children if no kind is given, lose their owner reference before p.Object is deleted. In Reconcile it orphans the
// children that are no longer in the plan, instead of pruning them. Foreground deletion of p.Object deletes the children
// nevertheless, because the garbage collector is faster.
func (p *Pass[T]) OrphanChildren(kinds ...client.Object) {
	if len(kinds) == 0 {
		p.record.OrphanKinds = slices.Clone(p.record.Snapshot.Kinds.Owned)
	}
	for _, o := range kinds {
		gvk, err := apiutil.GVKForObject(o, p.record.Snapshot.Kinds.Scheme)
		if err != nil {
			p.record.Fail(fmt.Errorf("finding the kind of %T: %w", o, err))
		}
		p.record.OrphanKinds = append(p.record.OrphanKinds, gvk)
	}
}
