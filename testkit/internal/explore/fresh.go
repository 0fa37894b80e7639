package explore

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// This file compares the state after a step with that of a fresh operator, which finds the same objects in a namespace of
// its own. An edit or a removal that never takes effect is in all runs of a scenario, and no fault shows it.

// freshReference is the state of a fresh operator with the objects of a step. The baseline differs from it.
type freshReference struct {
	state state.State
	mask  state.Mask
}

// runFresh compares the states of a baseline run after all steps but the first with those of fresh operators. It returns a
// run for each cause of a difference.
func (x *Explorer) runFresh(ctx context.Context, of *run) ([]report.Run, error) {
	if !x.oracleEnabled(oracleFresh) {
		return nil, nil
	}
	var group errgroup.Group
	group.SetLimit(x.Parallel)
	found := make([]*report.Run, len(x.Steps))
	references := make([]*freshReference, len(x.Steps))
	reasons := make([]string, len(x.Steps)) // why a state is not compared
	x.freshStates = make([]state.State, len(x.Steps))
	for step := 1; step < len(x.Steps); step++ {
		if reasons[step] = of.inputs[step].unknown; reasons[step] != "" {
			continue
		}
		group.Go(func() (err error) {
			found[step], references[step], reasons[step], err = x.compareFresh(ctx, of, step)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("comparing with a fresh operator: %w", err)
	}
	x.fresh = references
	for step, why := range reasons {
		if why != "" {
			x.freshNotes = append(x.freshNotes, fmt.Sprintf(
				"the state after step %q is not compared with that of a fresh operator: %s", x.Steps[step].Name, why))
		}
	}
	return firstOfEachCause(found), nil
}

// firstOfEachCause returns the runs with a difference that no run before has.
func firstOfEachCause(runs []*report.Run) []report.Run {
	var all []report.Run
	known := map[string]bool{}
	for _, run := range runs {
		if run == nil {
			continue
		}
		isNew := false
		for line := range strings.Lines(run.Violations[0].Detail) {
			isNew = isNew || !known[line]
			known[line] = true
		}
		if isNew {
			all = append(all, *run)
		}
	}
	return all
}

// compareFresh returns a failed run and the reference if the state after a step differs from that of fresh operators, or
// why it cannot be compared. A difference counts if it persists with both orders of the objects and the operator: an
// operator may serve the first of two objects that want the same.
func (x *Explorer) compareFresh(
	ctx context.Context, of *run, step int,
) (_ *report.Run, _ *freshReference, why string, _ error) {
	first := x.newFreshRun(ctx, of, step)
	defer first.end()
	differs, err := first.differs(objectsFirst)
	if err == nil && first.why == "" {
		x.freshStates[step] = first.state()
	}
	if err != nil || !differs {
		return nil, nil, first.why, err
	}
	second := x.newFreshRun(ctx, of, step)
	defer second.end()
	if differs, err := second.differs(oneAfterOther); err != nil || !differs {
		return nil, nil, second.why, err
	}
	reference := &freshReference{state: second.state(), mask: state.Mask{}}
	for _, key := range reference.mask.AddDifferences(first.state(), reference.state) {
		reference.mask[key] = true
	}
	fresh, edited := x.comparable(reference, of.checkpoints[step])
	diff := state.Difference(fresh, edited)
	if diff == "" {
		return nil, nil, "it depends on the order of events", nil
	}
	found := &report.Run{
		Name: second.plan.Name, Fault: second.plan.Fault, Summary: second.plan.Summary, Outcome: report.Failed,
		Duration: second.sinceBegan(), Timeline: of.timeline(), Replay: x.Replay(of.plan.Name),
		Violations: []report.Violation{{
			Oracle: oracleFresh, Message: fmt.Sprintf("%s %s", of.after(step), state.Explain(fresh, edited)),
			Detail: "-: a fresh operator, +: after the steps\n" + diff,
		}},
	}
	shortenNames(found, of.space.Namespace)
	return found, reference, "", nil
}

// comparable returns the state of a fresh operator and a state after steps, without what may differ.
func (x *Explorer) comparable(reference *freshReference, got state.State) (fresh, edited state.State) {
	mask := maps.Clone(x.baseline.Mask)
	maps.Copy(mask, reference.mask)
	for _, places := range [][]string{x.ExternallyManaged, x.Irreplaceable} {
		for _, place := range places {
			mask[place] = true
		}
	}
	users := x.baseline.UserObjects
	end := x.baseline.Checkpoints[len(x.baseline.Checkpoints)-1]
	remains := func(name string, _ any) bool {
		_, stays := end[name]
		return stays && !users[name] || x.mayRemain(name) || isKept(name)
	}
	fresh, edited = maps.Clone(reference.state), maps.Clone(got)
	for _, s := range []state.State{fresh, edited} {
		maps.DeleteFunc(s, remains)
		for name := range users {
			resource, _, _ := strings.Cut(name, "/")
			fields, ok := s[name].(map[string]any)
			if ok && x.isStatusKind(resource) { // of a custom resource, the operator's part only
				s[name] = map[string]any{"metadata": fields["metadata"], "status": fields["status"]}
			}
		}
	}
	return state.WithoutHistory(mask.Remove(fresh), mask.Remove(edited))
}

// isOldRevision reports whether an object is kept from an earlier step: a fresh operator does not create it from the objects
// after this step. An operator does not recreate it after a deletion.
func (x *Explorer) isOldRevision(step int, name string) bool {
	return step < len(x.freshStates) && x.freshStates[step] != nil && state.IsOldRevision(x.freshStates[step], name)
}

// isKept reports whether an object with this canonical name depends on earlier steps by its nature: a claim has data, and
// a Job has run.
func isKept(name string) bool {
	return strings.HasPrefix(name, "persistentvolumeclaims/") || strings.HasPrefix(name, "jobs.batch/")
}

// isStatusKind reports whether the operator writes the status of a resource.
func (x *Explorer) isStatusKind(resource string) bool {
	for kind := range x.baseline.Status {
		if kind.String() == resource {
			return true
		}
	}
	return false
}

// freshNote returns a sentence for a state after a fault that is that of a fresh operator although the baseline's is not.
func (r *run) freshNote(step int, got state.State) string {
	if step >= len(r.x.fresh) || r.x.fresh[step] == nil {
		return ""
	}
	fresh, edited := r.x.comparable(r.x.fresh[step], got)
	if state.Difference(fresh, edited) != "" {
		return ""
	}
	return "; a fresh operator makes the same of the objects: the run without the fault is wrong"
}

// freshPlan returns the plan of a fresh operator with the objects of a step.
func (x *Explorer) freshPlan(step int) *fault.Plan {
	return &fault.Plan{
		Name: fmt.Sprintf("fresh/%d", step+1), Fault: "fresh", AlwaysApplies: true, GracefulStop: true,
		Summary: fmt.Sprintf("a fresh operator found the objects of step %q", x.Steps[step].Name),
	}
}
