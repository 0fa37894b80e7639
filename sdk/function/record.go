package function

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
	"github.com/homeostat-dev/homeostat/sdk/internal/status"
)

// record writes an answer into the pass. Its error is that of the reconcile.
func (f *caller) record(p *desired.Pass, call string, answer *Answer) error {
	record := f.recordStatus
	if f.config.Decorates {
		record = recordMetadata
	}
	if err := record(p, answer); err != nil {
		return err
	}
	if answer.Status != nil {
		p.StatusUpdatedFuncs = append(p.StatusUpdatedFuncs, f.checkStored(p, answer.Status))
	}
	for _, e := range answer.Events {
		if e.Type != "" && e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
			return bug(ReasonInvalidAnswer, "the type of an event is %q: it must be Normal or Warning", e.Type)
		}
		p.Events = append(p.Events, desired.Event{Type: orNormal(e.Type), Reason: e.Reason, Message: e.Message})
	}
	p.RequeueAfter(seconds(answer.RequeueAfterSeconds))
	switch {
	case answer.Error != "":
		return bug(ReasonFailed, "%s", answer.Error)
	case answer.Invalid != nil:
		return retry.Invalid(answer.Invalid.Reason, "%s", answer.Invalid.Message)
	case answer.Wait != nil:
		return retry.WaitFor(seconds(answer.Wait.AfterSeconds), answer.Wait.Reason, "%s", answer.Wait.Message)
	}
	if u := answer.Unfinished; u != nil {
		if call != CallFinalize {
			return bug(ReasonInvalidAnswer, "unfinished is for the call %s", CallFinalize)
		}
		p.Unfinished = retry.WaitFor(seconds(u.AfterSeconds), u.Reason, "%s", u.Message)
	}
	return f.recordPlan(p, answer)
}

func orNormal(eventType string) string {
	if eventType == "" {
		return corev1.EventTypeNormal
	}
	return eventType
}

// engineConditions are the types of conditions that the engine writes.
var engineConditions = []string{
	conditions.Ready, conditions.Reconciling, conditions.Stalled, conditions.Deleting,
	status.ConditionPaused, status.ConditionDryRun, status.ConditionContended,
}

func (f *caller) recordStatus(p *desired.Pass, answer *Answer) error {
	o, ok := p.Object.(*Object)
	switch {
	case !ok:
		return fmt.Errorf("the object is a %T", p.Object)
	case answer.Labels != nil || answer.Annotations != nil:
		return bug(ReasonInvalidAnswer, "the answer has labels or annotations for the object: they are for decorated objects")
	}
	dropped := ""
	if answer.Status != nil {
		dropped = f.takeDropped(o, answer.Status)
		o.Status.Fields = answer.Status
	}
	if err := recordConditions(o, answer); err != nil {
		return err
	}
	override := answer.NotReady
	if answer.Suspended != nil {
		override = answer.Suspended
	}
	p.IsSuspended = answer.Suspended != nil && dropped == ""
	if dropped != "" {
		override = &Problem{
			Reason:  ReasonStatusNotStored,
			Message: fmt.Sprintf("the API server does not store status.%s: add it to the schema of the CRD", dropped),
		}
		p.RequeueAfter(notStoredRetry)
	}
	if override != nil {
		p.Override = &desired.ReadyOverride{Reason: override.Reason, Message: override.Message}
	}
	return nil
}

// recordConditions replaces the conditions of the function.
func recordConditions(o *Object, answer *Answer) error {
	if answer.Conditions != nil {
		o.Status.Conditions = slices.DeleteFunc(o.Status.Conditions, func(c metav1.Condition) bool {
			present := slices.ContainsFunc(answer.Conditions, func(a Condition) bool { return a.Type == c.Type })
			return !present && !slices.Contains(engineConditions, c.Type)
		})
	}
	for _, c := range answer.Conditions {
		value := metav1.ConditionStatus(c.Status)
		switch {
		case slices.Contains(engineConditions, c.Type):
			return bug(ReasonInvalidAnswer, "condition %s is written by the engine: use notReady, suspended, wait or invalid", c.Type)
		case value != metav1.ConditionTrue && value != metav1.ConditionFalse && value != metav1.ConditionUnknown:
			return bug(ReasonInvalidAnswer, "the status of condition %s is %q: it must be True, False or Unknown", c.Type, c.Status)
		case c.Type == "" || c.Reason == "":
			return bug(ReasonInvalidAnswer, "condition %q has the reason %q: both are needed", c.Type, c.Reason)
		}
		conditions.Set(o, c.Type, value, c.Reason, c.Message)
	}
	return nil
}

// checkStored returns a function that remembers a field of the status that the API server did not store: each reconcile
// would write it again.
func (f *caller) checkStored(p *desired.Pass, sent map[string]any) func() {
	return func() {
		stored, ok := p.Object.(*Object)
		if !ok {
			return
		}
		dropped := ""
		for _, name := range slices.Sorted(maps.Keys(sent)) {
			if !equality.Semantic.DeepEqual(sent[name], stored.Status.Fields[name]) {
				dropped = name
				break
			}
		}
		f.setDropped(stored.UID, dropped)
	}
}

// recordPlan records the children.
func (f *caller) recordPlan(p *desired.Pass, answer *Answer) error {
	planned := map[object.ID]*desired.Child{}
	for i := range answer.Children {
		c := &answer.Children[i]
		s, err := f.child(p, c, planned)
		if err != nil {
			return bug(ReasonInvalidAnswer, "children[%d], %s %s: %s", i, c.Object.GetKind(), c.Object.GetName(), err)
		}
		if p.Add(s); p.Err != nil {
			return bug(ReasonInvalidAnswer, "children[%d]: %s", i, p.Err)
		}
		planned[s.ID()] = s
	}
	for _, k := range answer.Orphan {
		p.OrphanKinds = append(p.OrphanKinds, k.gvk())
	}
	for _, name := range answer.ForceDelete {
		if p.ForceDeletes == nil {
			p.ForceDeletes = map[object.ID]bool{}
		}
		p.ForceDeletes[name.id(p)] = true
	}
	return nil
}

func (f *caller) child(p *desired.Pass, c *Child, planned map[object.ID]*desired.Child) (*desired.Child, error) {
	if !f.config.owns(Kind{c.Object.GetAPIVersion(), c.Object.GetKind()}) {
		return nil, errors.New("its kind is not in owns of the declaration of the operator: add it")
	}
	s := &desired.Child{
		Desired: &c.Object, CreateOnly: c.CreateOnly, Retain: c.Retain, ConflictReason: c.ConflictReason,
		Immutable: desired.ImmutablePolicy(max(0, slices.Index(immutablePolicies, c.OnImmutable))),
		Hold:      c.HoldUntil != nil && !*c.HoldUntil,
	}
	if c.HoldBack != nil {
		s.HeldBack = retry.WaitFor(seconds(c.HoldBack.AfterSeconds), c.HoldBack.Reason, "%s", c.HoldBack.Message)
	}
	for _, path := range c.Unmanaged {
		s.Options = append(s.Options, apply.Unmanaged(path))
		s.HasUnmanaged = true
	}
	if c.Adopt != nil {
		selector := labels.SelectorFromSet(c.Adopt.MatchLabels)
		s.MayAdopt = func(o client.Object) bool { return selector.Matches(labels.Set(o.GetLabels())) }
	}
	var err error
	if s.After, err = earlier(p, "after", c.After, planned); err != nil {
		return nil, err
	}
	if s.AfterCreated, err = earlier(p, "afterCreated", c.AfterCreated, planned); err != nil {
		return nil, err
	}
	if c.Ready != nil {
		p.Observe(s)
		s.Ready = c.Ready.of(s.Live)
	}
	return s, nil
}

// of returns the readiness check for a child that was observed in this state.
func (r Readiness) of(seen client.Object) func(client.Object) (bool, string) {
	return func(o client.Object) (bool, string) {
		if seen == nil || seen.GetResourceVersion() != o.GetResourceVersion() {
			return false, "it has changed, and is checked in the next reconcile"
		}
		return r.OK, r.Message
	}
}

func earlier(
	p *desired.Pass, option string, names []ChildName, planned map[object.ID]*desired.Child,
) ([]*desired.Child, error) {
	var all []*desired.Child
	for _, name := range names {
		s := planned[name.id(p)]
		if s == nil {
			return nil, fmt.Errorf("%s names %s %s, which is not an earlier child", option, name.Kind, name.Name)
		}
		all = append(all, s)
	}
	return all, nil
}

// id returns the identity of the child that the name names.
func (n ChildName) id(p *desired.Pass) object.ID {
	o := ofKind(Kind{n.APIVersion, n.Kind}.gvk())
	o.SetNamespace(n.Namespace)
	o.SetName(n.Name)
	gvk := o.GroupVersionKind()
	p.Snapshot.Kinds.DefaultNamespace(o, gvk, p.Object.GetNamespace())
	return object.ID{GVK: gvk, Key: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}}
}
