package explore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/quiescence"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
	"github.com/homeostat-dev/homeostat/testkit/internal/webhookconfig"
)

// unserved begins the reason why a fault was not tried that leaves no operator to serve its webhooks.
const unserved = "objects cannot be changed while no operator serves its webhooks: "

// run is one execution of the scenario in a namespace of its own.
type run struct {
	*view
	*outcome

	procs       *processes
	idle        *quiescence.Detector
	duration    time.Duration
	longestStep time.Duration // the longest time until the last change after a step of a baseline run

	checkpoints       []state.State
	survivors         state.State                // before the deletion of the custom resources
	children          [][]baseline.Child         // at each checkpoint
	podsAt            [][]baseline.Pod           // at each checkpoint
	inputs            []inputs                   // at each checkpoint
	stepFieldsAt      []map[string][]state.Field // at each checkpoint
	addedFieldsAt     []map[string][]state.Field // at each checkpoint
	metadataFieldsAt  []map[string][]state.Field // at each checkpoint
	idleUpdates       map[string]string          // updates that changed nothing after a restart, by their target
	externallyChanged map[types.UID]bool         // UIDs of the objects that were changed by another manager

	step        int         // the current step, from 0
	stepCalls   int         // number of requests of the user before the current step
	stepBlocked bool        // the current step waits for the operator
	stepping    atomic.Bool // a step is in progress
	noWaitAfter int         // see fault.Plan
	triggerState
	holdsNodes bool   // the run holds the lock of the nodes
	atEnd      func() // called before the custom resources are deleted; optional

	// For baseline runs.
	beginsAt        time.Time     // the earliest time at which the run begins
	pauseAfterFirst time.Duration // after the first step, when the operator is idle
}

func (x *Explorer) newRun(ctx context.Context, p *fault.Plan, known *baseline.Baseline) *run {
	in := space.New(ctx, p.Name)
	in.Timeout = x.Timeout
	r := &run{
		outcome: &outcome{
			began: time.Now(), enabled: x.oracleEnabled, injected: map[string]bool{}, untriedReasons: map[string]string{},
		},
		externallyChanged: map[types.UID]bool{},
		view: &view{
			x: x, plan: p, baseline: known, space: in,
			targetCounts: map[string]int{}, generatedNames: map[string]string{}, changedInStep: map[types.UID]bool{},
		},
		noWaitAfter: p.NoWaitAfter,
	}
	r.externals = &externals{run: r, counts: map[string]int{}}
	in.AddExternal = r.externals.add
	r.user = intercept.New(&userHook{r})
	r.operator = intercept.New(&hook{r})
	r.operator.Foreign = r.isForeign
	r.operator.Hidden = r.isHidden
	r.procs = &processes{
		subject: x.Subject, plan: p, space: in, operator: r.operator, out: r.outcome,
		byNumber: map[int]Process{}, killed: map[int]bool{},
	}
	r.running = r.procs.running
	r.operator.Reconciling = r.procs.areReconciling
	r.idle = &quiescence.Detector{
		Space: in, Operator: r.operator, QuietPeriod: x.QuietPeriod, StepQuietPeriod: x.StepQuietPeriod, Timeout: x.Timeout,
		IgnoreWrites: !x.oracleEnabled(oracleAtRest), HistoryShowsWrites: r.historyShowsWrites,
	}
	return r
}

// execute performs the run. The findings are in r afterwards.
func (r *run) execute() {
	defer func() { r.duration = time.Since(r.began) }()
	defer r.holdNodes()()
	defer r.space.Close()
	r.runScenario()
	r.procs.restarts.Wait()
	r.endRun()
	r.changes = r.snapshot()
	for _, failure := range r.space.Failures() {
		if r.foreign.any() { // the step may depend on the child
			r.setUntriedReason(r.plan, "a step cannot be done while another owner has the name of a child: "+failure)
			continue
		}
		if r.lacksChild() {
			r.setUntriedReason(r.plan, "a step cannot be done before the operator has made what it is about: "+failure)
			continue
		}
		if webhookconfig.IsUnserved(failure) {
			r.setUntriedReason(r.plan, unserved+failure)
			continue
		}
		message, detail, _ := strings.Cut(failure, "\n")
		r.addViolation(oracleScenario, message, detail)
	}
	if r.infraError() == nil && r.space.IsOpen() {
		checks{r}.checkAll()
	}
	for number, p := range r.procs.running() {
		if r.plan.GracefulStop {
			r.procs.endProcess(number, p.Stop)
		} else {
			r.procs.endProcess(number, p.Kill)
		}
	}
	if r.log != nil {
		r.log.End()
	}
}

// open opens the space, begins the history and runs the setup. It reports success.
func (r *run) open() bool {
	err := r.x.Opener(r.space, func(next http.RoundTripper) http.RoundTripper { return r.user.Transport(0, next) })
	if err != nil {
		if !errors.Is(err, space.ErrFailed) {
			r.abort(fmt.Errorf("opening a namespace: %w", err))
		}
		return false
	}
	r.discoverNodes()
	r.log = r.x.recorder.Follow(r.space.Namespace)
	r.log.FollowCluster()
	r.space.Cleanup(r.removeFurther)
	r.idle.Log = r.log
	if r.x.Setup != nil {
		if !r.space.Check(r.x.Setup(r.space)) {
			return false
		}
		r.await(r.historyShowsWrites)
	}
	r.initial = r.log.Changes()
	return true
}

// runScenario performs the steps and the deletion of the custom resources.
func (r *run) runScenario() {
	if !r.open() {
		return
	}
	r.setupCalls = len(r.user.Calls())
	r.operator.Enter(0)
	for range max(1, r.plan.Replicas) {
		if !r.procs.start() {
			return
		}
	}
	r.externals.rememberStates()
	for i, step := range r.x.Steps {
		r.step = i
		r.operator.Enter(i + 1)
		r.alignTargets(i)
		if !r.callHook(beforeStep, i) {
			return
		}
		r.logStep(step.Name)
		if !r.perform(i, step) {
			return
		}
		if r.noWaitAfter == i+1 {
			continue // the next step starts before the operator has reconciled this one
		}
		if !r.awaitStep(i) {
			return
		}
		if !r.awaitConvergence(i) {
			return
		}
		if !r.changeIdle(i) {
			return
		}
		if i == 0 {
			r.pause(r.pauseAfterFirst)
		}
	}
	if r.atEnd != nil {
		r.atEnd()
	}
	if !r.procs.hasFailedStart() {
		r.tearDown()
	}
}

// changeIdle makes the changes of the plan for the idle operator after a step. It reports whether the scenario continues.
func (r *run) changeIdle(step int) bool {
	return r.callHook(afterIdle, step) && !r.isTornDown() && r.trigger(step)
}

// blockedAfter is the time without a write after which a step in progress counts as blocked.
const blockedAfter = 200 * time.Millisecond

// perform makes a step and injects the plan's fault. If the step waits for the operator, the fault is injected during the
// wait. perform reports whether the scenario continues.
func (r *run) perform(i int, step Step) bool {
	done := make(chan struct{})
	r.user.ResetIdleTime()
	r.stepCalls = len(r.user.Calls())
	go func() {
		defer close(done)
		r.stepping.Store(true)
		defer r.stepping.Store(false)
		r.space.Check(step.Do(r.space))
	}()
	waits := func() bool {
		return !r.plan.DeletesEarly && r.idle.HasBeenIdle(r.space.Context(), blockedAfter, func() (time.Duration, bool) {
			busy, idle := r.user.Busy()
			return idle, !busy
		})
	}
	if !r.waitStep(done, waits) {
		return false
	}
	r.operator.ResetIdleTime()
	select {
	case <-done:
		r.stepBlocked = false
	default:
		r.stepBlocked = true
	}
	if !r.callHook(duringStep, i) || !r.waitStep(done, func() bool { return false }) {
		return false
	}
	return !r.isTornDown() && !r.space.Failed()
}

// awaitStep runs Options.Await for the step, if it is set. It reports whether the scenario continues.
func (r *run) awaitStep(i int) bool {
	if r.x.Await == nil {
		return true
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.space.Check(r.x.Await(r.space, i))
	}()
	return r.waitStep(done, func() bool { return false }) && !r.isTornDown() && !r.space.Failed()
}

// waitStep waits until the step has ended or enough returns true. It reports whether the scenario continues. If the
// custom resources have to be deleted meanwhile, the step is abandoned and its failures are ignored.
func (r *run) waitStep(done <-chan struct{}, enough func() bool) bool {
	isStuck := r.stuckOnForeign()
	for {
		select {
		case <-done:
			return true
		case <-time.After(quiescence.StepQuietPeriod / 3):
		case <-r.space.Context().Done():
			<-done
			return false
		}
		if r.procs.isDeletedWhileDown() {
			r.space.Mute()
			r.tearDown()
			return false
		}
		if isStuck() {
			r.space.Mute()
			if r.awaitConvergence(r.step) {
				r.tearDown()
			}
			return false
		}
		if enough() {
			return true
		}
	}
}

// hookOf returns a hook of a plan, or nil.
type hookOf func(p *fault.Plan) func(fault.Run, int)

func beforeStep(p *fault.Plan) func(fault.Run, int) { return p.Before }
func duringStep(p *fault.Plan) func(fault.Run, int) { return p.During }
func afterIdle(p *fault.Plan) func(fault.Run, int)  { return p.AfterIdle }

// callHook calls a hook of each part of the plan and reports whether the scenario continues: the start of an operator may
// have failed.
func (r *run) callHook(hook hookOf, step int) bool {
	for _, p := range r.plan.Parts() {
		if f := hook(p); f != nil {
			f(controls{r, p}, step)
		}
	}
	return !r.procs.hasFailedStart()
}

// tearDown deletes the objects that the scenario made and the operator reconciles, and waits until the operator has
// cleaned up.
func (r *run) tearDown() {
	r.setTornDown()
	r.operator.Enter(len(r.x.Steps) + 1)
	r.alignTargets(len(r.x.Steps))
	r.await(r.historyShowsWrites)
	r.changesBeforeTeardown = r.log.Changes()
	toDelete := r.primaries()
	if r.terminating.Load() {
		toDelete = slices.Concat(r.residue(), r.otherObjects(), toDelete)
	}
	if !r.callHook(beforeStep, len(r.x.Steps)) {
		return
	}
	r.recordSurvivors()
	r.logStep("delete the custom resources")
	if !r.deleteObjects(toDelete) {
		return
	}
	r.operator.ResetIdleTime()
	if r.callHook(duringStep, len(r.x.Steps)) {
		r.awaitConvergence(len(r.x.Steps))
	}
}

// deleteObjects deletes objects of the scenario, and reports success. Unless a namespace is deleted, custom resources are
// deleted before other objects: without its input, an operator may remove what it would otherwise leave behind.
func (r *run) deleteObjects(all []history.Change) bool {
	custom, others := all, []history.Change(nil)
	if !r.terminating.Load() {
		custom, others = nil, nil
		for _, c := range all {
			if readiness.IsCustom(c.Object) {
				custom = append(custom, c)
			} else {
				others = append(others, c)
			}
		}
	}
	for i, objects := range [][]history.Change{custom, others} {
		for _, c := range objects {
			o := c.Object.DeepCopy()
			r.logStep("delete " + r.name(c))
			err := r.space.Client.Delete(r.space.Context(), o, client.PropagationPolicy("Background"))
			if err != nil && webhookconfig.IsUnserved(err.Error()) {
				r.discard(r.plan, unserved+err.Error())
				return false
			}
			if client.IgnoreNotFound(err) != nil && r.space.Context().Err() == nil {
				r.abort(fmt.Errorf("deleting %s %s: %w", o.GetKind(), o.GetName(), err))
				return false
			}
		}
		if i == 0 && len(custom) > 0 && len(others) > 0 && r.procs.isRunning() {
			r.awaitGone(custom)
		}
	}
	return true
}

// awaitGone waits until the objects are gone and the operator is idle, for a limited time: an operator may need longer.
func (r *run) awaitGone(objects []history.Change) {
	ctx, cancel := context.WithTimeout(r.space.Context(), deletionTime)
	defer cancel()
	for {
		gone := !slices.ContainsFunc(objects, func(c history.Change) bool { return r.exists(c.Object.GetUID()) })
		if busy, idle := r.operator.Busy(); gone && !busy && idle >= quiescence.StepQuietPeriod {
			return
		}
		select {
		case <-time.After(quiescence.StepQuietPeriod / 3):
		case <-ctx.Done():
			return
		}
	}
}

// recordSurvivors stores the state before the deletion of the custom resources, some objects of which outlive them.
func (r *run) recordSurvivors() {
	r.survivors = r.state()
}
