package explore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/quiescence"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// This file makes the changes that show whether an operator has lost a watch (see fault.Trigger), and learns which of them
// it reacts to without a fault. Only these are made after one: what an operator does not repair at all is not held against
// its watches.

const (
	// reactionTime is the time within which the operator must react to be expected to do so after a fault. A slow one has
	// as much time as it takes after a step of the scenario, and stepsPerReaction times as much on a busy machine.
	reactionTime     = 5 * time.Second
	stepsPerReaction = 2
)

// maxTriggerRetries is the number of further runs without a fault if one fails.
const maxTriggerRetries = 2

// triggers are those that the operator reacts to. They are learned when the first plan needs them. It is safe for concurrent
// use.
type triggers struct {
	mu      sync.Mutex
	known   bool
	all     []fault.Trigger // one for each kind
	omitted []string        // the operator does not react to them
	failed  []string        // the runs that should show it failed for another reason
	retries int             // of such runs
}

// newFaultRun returns the run of a plan with a fault, after it has learned the triggers if the plan has some.
func (x *Explorer) newFaultRun(ctx context.Context, p *fault.Plan) (*run, error) {
	if err := x.learnTriggers(ctx, p); err != nil {
		return nil, err
	}
	return x.newRun(ctx, p, x.baseline), nil
}

// learnTriggers performs runs without a fault until the operator reacts to the first remaining candidate of each kind, or
// there is none.
func (x *Explorer) learnTriggers(ctx context.Context, p *fault.Plan) error {
	candidates := triggersOf(p)
	if len(candidates) == 0 {
		return nil
	}
	x.triggers.mu.Lock()
	defer x.triggers.mu.Unlock()
	for !x.triggers.known {
		all := firstOfEachKind(candidates)
		if len(all) == 0 {
			x.triggers.known = true
			break
		}
		r := x.newRun(ctx, &fault.Plan{
			Name: "none/triggers", Fault: "none", GracefulStop: true, AlwaysApplies: true, ExtraQuiet: true, MergesEvents: true,
			Triggers: all,
		}, x.baseline)
		r.learnsTriggers = true
		r.execute()
		if err := cmp.Or(ctx.Err(), r.infraError()); err != nil {
			return fmt.Errorf("learning what the operator reacts to: %w", err)
		}
		candidates = x.triggers.judge(r, all, candidates)
	}
	return nil
}

// judge draws the conclusion from a run without a fault that had these triggers. It returns the remaining candidates.
func (ts *triggers) judge(r *run, all, candidates []fault.Trigger) []fault.Trigger {
	failed := len(r.findings()) > 0 || !r.isTornDown()
	switch {
	case r.ignored != "":
		ts.omitted = append(ts.omitted, r.ignored)
	case failed && ts.retries < maxTriggerRetries: // by chance, perhaps
		ts.retries++
		return candidates
	case failed:
		for _, t := range all {
			ts.failed = append(ts.failed, t.Text)
		}
		ts.known = true
		return nil
	}
	candidates = slices.DeleteFunc(candidates, func(t fault.Trigger) bool {
		return t.Text == r.ignored || slices.Contains(r.impossible, t.Text)
	})
	if rest := firstOfEachKind(candidates); r.ignored == "" && len(rest)+len(r.impossible) == len(all) {
		ts.all = rest
		ts.known = true
	}
	return candidates
}

// triggersOf returns the triggers of all parts of a plan.
func triggersOf(p *fault.Plan) []fault.Trigger {
	var all []fault.Trigger
	for _, part := range p.Parts() {
		for _, t := range part.Triggers {
			if !slices.ContainsFunc(all, func(known fault.Trigger) bool { return known.Text == t.Text }) {
				all = append(all, t)
			}
		}
	}
	return all
}

// firstOfEachKind returns the first trigger of each kind.
func firstOfEachKind(candidates []fault.Trigger) []fault.Trigger {
	var all []fault.Trigger
	for _, t := range candidates {
		if !slices.ContainsFunc(all, func(other fault.Trigger) bool { return other.Kind == t.Kind }) {
			all = append(all, t)
		}
	}
	return all
}

// includes reports whether the operator reacts to a trigger.
func (ts *triggers) includes(t fault.Trigger) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return slices.ContainsFunc(ts.all, func(known fault.Trigger) bool { return known.Text == t.Text })
}

// trigger makes the changes of the plan's triggers after a step, one after the other, and waits for the operator after each.
// It reports whether the scenario continues.
func (r *run) trigger(step int) bool {
	if r.foreign.any() || r.hasViolations() {
		return true
	}
	all := slices.DeleteFunc(triggersOf(r.plan), func(t fault.Trigger) bool {
		return t.Step != step || !r.learnsTriggers && !r.x.triggers.includes(t)
	})
	if len(all) == 0 {
		return true
	}
	for _, p := range r.plan.Parts() {
		if p.BeforeTriggers != nil && len(p.Triggers) > 0 {
			p.BeforeTriggers(controls{r, p})
		}
	}
	for i, t := range all {
		r.moreTriggers = i < len(all)-1
		if !r.triggerOne(t) {
			return false
		}
	}
	return true
}

// triggerOne makes the change of a trigger. What happens until the operator is idle again is not counted. Afterwards the
// status may record it.
func (r *run) triggerOne(t fault.Trigger) bool {
	r.triggered.Store(true)
	r.reactsTo = t.Text
	defer func() { r.reactsTo = "" }()
	if r.learnsTriggers {
		r.idle.Timeout = min(r.x.Timeout, max(reactionTime, stepsPerReaction*r.x.longestStep))
		defer func() { r.idle.Timeout = r.x.Timeout }()
	}
	first := len(r.log.Changes())
	c := &triggerControls{controls: controls{r, r.plan}}
	reacted := t.Do(c)
	switch {
	case c.impossible != "" && !c.changed:
		r.impossible = append(r.impossible, t.Text)
		return true
	case c.impossible != "" && !r.learnsTriggers:
		r.setUntriedReason(r.plan, "after the fault, "+t.Text+" is impossible: "+c.impossible)
		return false
	case c.impossible != "":
		r.ignored = t.Text
		return false
	case !reacted && r.space.Context().Err() == nil:
		r.addViolation(oracleEndState, r.after(t.Step)+" the operator does not react, as it does without the fault", "")
	case reacted && r.awaitConvergence(t.Step):
		r.uncounted = append(r.uncounted, span{first, len(r.log.Changes())})
		return true
	}
	r.ignored = t.Text
	return false
}

// triggerState is what a run knows of its triggers.
type triggerState struct {
	learnsTriggers bool     // the run has no fault
	moreTriggers   bool     // the current trigger is not the last
	reactsTo       string   // the trigger that the operator is expected to react to, or ""
	ignored        string   // the trigger that it did not react to, or ""
	impossible     []string // the triggers that could not be made
}

// counted returns a history without the changes that triggers caused.
func (v *view) counted(changes []history.Change) []history.Change {
	if len(v.uncounted) == 0 {
		return changes
	}
	var rest []history.Change
	for i, c := range changes {
		if !slices.ContainsFunc(v.uncounted, func(s span) bool { return s.first <= i && i < s.last }) {
			rest = append(rest, c)
		}
	}
	return rest
}

// span is a part of the history, from the first change to before the last.
type span struct{ first, last int }

// triggerControls are controls for a trigger, which is not the fault of the plan.
type triggerControls struct {
	controls

	impossible string // why the change cannot be made
	changed    bool   // a part of it was made
}

func (c *triggerControls) LogFault(text string) {
	c.changed = true
	c.r.addEntry(report.Entry{Lane: report.Fault, Text: text})
}

func (c *triggerControls) MarkUntried(reason string) { c.impossible = reason }
func (c *triggerControls) IsUntried() bool           { return c.impossible != "" }

// AwaitReaction implements fault.Run.
func (c controls) AwaitReaction(deleted types.UID) bool { return c.r.awaitReaction(deleted) }

// awaitReaction waits until the operator has written something since the last change by the user, the deletion of an object,
// and reports whether it did before its timeout, or before it was known to have nothing to do.
func (r *run) awaitReaction(deleted types.UID) bool {
	var since time.Time
	for _, c := range r.user.Calls() {
		if c.IsWrite() {
			since = r.user.Began().Add(c.Began)
		}
	}
	ctx, cancel := r.idle.WithTimeout()
	defer cancel()
	idle := r.idle.AllIdle()
	for {
		if r.hasReactedSince(since, deleted) {
			return true
		}
		if r.isFinal(ctx, r.step, idle) {
			return false
		}
		select {
		case <-time.After(quiescence.StepQuietPeriod / 3):
		case <-ctx.Done():
			return false
		}
	}
}

// hasReactedSince reports whether a write of the operator has changed something since a time, and was not made in ignorance
// of the deletion of an object. The event of a child that was garbage may come before that of its owner, and an operator
// may create the child again meanwhile.
func (v *view) hasReactedSince(since time.Time, deleted types.UID) bool {
	effective, began := v.effective(), v.operator.Began()
	for i, c := range v.operator.Calls() {
		ignorant := c.UID != string(deleted) && bytes.Contains(c.Sent, []byte(deleted))
		if effective[i] && !ignorant && c.Resource != "events" && !intercept.IsLease(c.Request) &&
			began.Add(c.Ended).After(since) {
			return true
		}
	}
	return false
}

// triggerNotes tells which triggers are omitted.
func (x *Explorer) triggerNotes() []string {
	x.triggers.mu.Lock()
	defer x.triggers.mu.Unlock()
	var notes []string
	if all := x.triggers.omitted; len(all) > 0 {
		notes = append(notes, "after watches have ended, this is not tried, because the operator does not react to it without a "+
			"fault either: "+strings.Join(all, ", "))
	}
	if all := x.triggers.failed; len(all) > 0 {
		notes = append(notes, "after watches have ended, this is not tried, because the runs without a fault that should show "+
			"how the operator reacts to it failed: "+strings.Join(all, ", "))
	}
	return notes
}
