package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
	"github.com/homeostat-dev/homeostat/sdk/internal/reference"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
	"github.com/homeostat-dev/homeostat/sdk/internal/status"
)

// Planner plans reconciles.
type Planner struct {
	op         *desired.Definition
	kinds      *observed.Kinds
	owner      *apply.FieldManager // nil if convergence is judged by values alone
	namespaces []string
	finalizes  bool // the operator's Finalize is called
	// Read returns an object that is not a child, or nil if it does not exist. Nil if no object can be read.
	read func(id object.ID, like client.Object) (client.Object, error)
	// list returns the objects of a target without a name.
	list func(t reference.Target, like client.Object) ([]client.Object, error)
}

// plan plans the reconcile of o with these children, and carries nothing out.
func (d *Planner) plan(ctx context.Context, o desired.Object, seen *observed.Snapshot) *Plan {
	p := &desired.Pass{Object: object.Copy(o), Log: logr.FromContextOrDiscard(ctx), Now: time.Now(), Record: desired.Record{
		Snapshot: seen, Retries: retry.Tracker{}, ReadinessCache: desired.ReadinessCache{}, Derived: &reference.DerivedCache{},
		References:    reference.Reader{Key: client.ObjectKeyFromObject(o), Lookup: d.find, Read: d.full},
		ExternalKinds: d.op.ExternalKinds(), IsDry: true,
	}}
	p.Namespaces = d.namespaces
	plan := &Plan{Object: o, ObjectName: object.ID{GVK: d.kinds.Primary, Key: p.References.Key}.String()}
	guarded := controllerutil.ContainsFinalizer(o, d.op.FinalizerName)
	switch {
	case d.op.PausedBy(o) != "":
		plan.Actions = []Action{{Verb: holdBack, Object: plan.ObjectName, Reason: d.op.PausedBy(o)}}
		return plan
	case !o.GetDeletionTimestamp().IsZero():
		if guarded {
			d.cleanUp(ctx, o, p, plan)
		}
		return plan
	}
	if plan.Err = desired.Compute(ctx, o, p, d.op.Reconcile); plan.Err == nil {
		switch needed := d.op.NeedsFinalizer(o) || p.HasCrossNamespace() || p.HasExternal(); {
		case needed && !guarded:
			plan.Actions = append(plan.Actions, Action{Verb: "add the finalizer to", Object: plan.ObjectName})
		case !needed && guarded:
			plan.Actions = append(plan.Actions, Action{Verb: "remove the finalizer from", Object: plan.ObjectName})
		}
		plan.Err = d.children(ctx, p, plan)
		plan.Actions = append(plan.Actions, d.externalActions(p)...)
	}
	if plan.Err == nil || retry.Classify(plan.Err) >= retry.ClassWait {
		if err := p.RunPlanExecutedFuncs(ctx); err != nil {
			plan.Err = err
		}
	}
	status.Summarize(ctx, d.op, p, plan.Err, 0)
	plan.Object = p.Object
	return plan
}

// cleanUp plans the clean-up of an object that is being deleted. The operator's Finalize is called only without a cluster:
// it may make requests of its own.
func (d *Planner) cleanUp(ctx context.Context, o desired.Object, p *desired.Pass, plan *Plan) {
	plan.Actions = []Action{{Verb: "clean up", Object: plan.ObjectName}}
	if d.finalizes && d.op.NeedsFinalizer(o) {
		plan.Err = desired.Compute(ctx, o, p, d.op.Finalize)
		plan.Object = p.Object
		if plan.Err != nil {
			plan.Actions[0].Reason = retry.Describe(plan.Err)
			return
		}
		plan.Err = d.planned(ctx, p, plan)
	}
	plan.Actions = append(plan.Actions, d.externalActions(p)...)
}

// externalActions plans the requests for external resources.
func (d *Planner) externalActions(p *desired.Pass) []Action {
	if d.op.External == nil {
		return nil
	}
	var actions []Action
	for _, planned := range d.op.External.Plan(p) {
		a := Action{Verb: planned.Verb, Object: "external " + planned.Kind + " " + planned.Name}
		if planned.Input != "" {
			a.Fields = []string{"input: " + planned.Input}
		}
		actions = append(actions, a)
	}
	return actions
}

// children plans the writes of the children as if each was carried out. It returns the failures of children.
func (d *Planner) children(ctx context.Context, p *desired.Pass, plan *Plan) (err error) {
	err = d.planned(ctx, p, plan)
	for _, id := range p.Unplanned() {
		if child := p.Snapshot.Children[id]; !child.Terminating && !child.Retained {
			verb := "delete"
			if d.op.IsOrphan(p, id.GVK, child.Object) {
				verb = "orphan"
			}
			plan.Actions = append(plan.Actions, Action{Verb: verb, Object: id.From(p.References.Key.Namespace)})
		}
	}
	return err
}

// planned plans the writes of the planned children.
func (d *Planner) planned(ctx context.Context, p *desired.Pass, plan *Plan) (err error) {
	defer retry.RecoverPanic(ctx, &err) // of a ReadyWhen function
	var failures []error
	for _, s := range p.Plan {
		s.Stored = s.Live
		if s.Err = s.HeldBack; s.Err != nil {
			plan.Actions = append(plan.Actions, Action{Verb: holdBack, Object: s.String(), Reason: s.Err.Error()})
			continue
		}
		if other := s.BlockingChild(); other != nil {
			s.NotReadyMessage = fmt.Sprintf("%s waits for %s", s, other)
			plan.Actions = append(plan.Actions, Action{Verb: holdBack, Object: s.String(), Reason: "it waits for " + other.String()})
			continue
		}
		if step := d.planChild(ctx, p, s); step.Verb != "" {
			plan.Actions = append(plan.Actions, step)
		}
		failures = append(failures, s.Err)
		s.AssessReadiness()
	}
	return cmp.Or(desired.WorstChildError(p.Plan), errors.Join(failures...))
}

// planChild returns the action for one child. An empty verb means none.
func (d *Planner) planChild(ctx context.Context, p *desired.Pass, s *desired.Child) Action {
	step := Action{Object: s.String()}
	intent, err := s.Intent(ctx, d.kinds, p.Object)
	if err == nil && s.Live == nil {
		err = d.creationBlocked(s, intent)
	}
	if err != nil {
		s.Err = err
		step.Verb = holdBack
		step.Reason = retry.Describe(err)
		return step
	}
	if s.Terminating {
		step.Verb = holdBack
		step.Reason = "it is being deleted"
		return step
	}
	if step.Fields, s.Err = intent.Diff(s.Live, d.op.Name); s.Err != nil {
		return step
	}
	foreign, _ := s.Foreign(intent)
	for _, path := range foreign {
		step.Fields = append(step.Fields, path+": set by another manager -> nothing")
	}
	finalizer := d.op.FinalizerName
	switch {
	case s.Live == nil:
		step.Verb = "create"
		s.Stored = s.Desired
	case s.LacksFinalizer(finalizer), len(foreign) > 0, !s.CreateOnly && !d.converged(intent, s.Live, step.Fields):
		step.Verb = "update"
	case s.IsReleasable(finalizer):
		step.Verb = "release"
		step.Fields = nil
	}
	return step
}

func (d *Planner) converged(intent *apply.Intent, live client.Object, differences []string) bool {
	if d.owner == nil {
		return len(differences) == 0
	}
	return d.owner.Converged(intent, live)
}

// creationBlocked returns the error that prevents the creation of a child, or nil.
func (d *Planner) creationBlocked(s *desired.Child, intent *apply.Intent) error {
	if err := d.kinds.NotInstalledError(s.GVK); err != nil || d.read == nil {
		return err
	}
	other, err := d.read(s.ID(), s.Desired)
	if err != nil || other == nil || s.IsAdoptable(other) {
		return err
	}
	return s.Conflict(intent.CheckOwnership(other))
}

func (d *Planner) find(_ types.NamespacedName, t reference.Target, like client.Object) ([]client.Object, error) {
	if t.Key.Name == "" {
		return d.list(t, like)
	}
	o, err := d.read(t.ID, like)
	if err != nil || o == nil {
		return nil, err
	}
	return []client.Object{o}, nil
}

func (d *Planner) full(_ context.Context, id object.ID, into client.Object) (bool, error) {
	o, err := d.read(id, into)
	if err != nil || o == nil {
		return false, err
	}
	object.Assign(into, o)
	return true, nil
}

// DescribeCleanUp returns the planned clean-up of an object that is being deleted in one sentence. The operator's Finalize
// is not called: it may make requests of its own.
func DescribeCleanUp(op *desired.Definition, p *desired.Pass) string {
	var deletions strings.Builder
	d := Planner{op: op}
	for _, a := range d.externalActions(p) {
		fmt.Fprintf(&deletions, "; %s", a)
	}
	if deletions.Len() == 0 {
		return "would clean up and let the object go"
	}
	return "would clean up" + deletions.String() + "; and let the object go"
}

// Describe returns the planned writes of the children in one sentence, with one phrase for each child that is not converged.
// Conflicting objects are not detected, because only an attempt finds them.
func Describe(
	ctx context.Context, op *desired.Definition, k *observed.Kinds, m *apply.FieldManager, p *desired.Pass,
) string {
	var plan Plan
	d := Planner{op: op, kinds: k, owner: m}
	if err := d.children(ctx, p, &plan); err != nil && retry.Classify(err) == retry.ClassPanic {
		return "would do nothing: " + retry.Describe(err)
	}
	plan.Actions = append(plan.Actions, d.externalActions(p)...)
	if len(plan.Actions) == 0 {
		return "nothing would be done"
	}
	phrases := make([]string, len(plan.Actions))
	for i, s := range plan.Actions {
		phrases[i] = s.String()
	}
	return "would " + strings.Join(phrases, "; ")
}
