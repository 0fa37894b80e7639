package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// run is one execution of the scenario in a namespace of its own.
type run struct {
	x        *Explorer
	plan     *fault.Plan
	baseline *baseline.Baseline // nil in a baseline run
	space    *space.Space
	began    time.Time

	log      *history.Log
	user     *intercept.Interceptor // requests of the scenario
	operator *intercept.Interceptor // requests of the operator

	infraErr error // an error of the test infrastructure
	tornDown bool  // the custom resources were deleted
	duration time.Duration

	checkpoints           []state.State
	survivors             state.State        // objects that may outlive the custom resources, as they were before the deletion
	children              [][]baseline.Child // at each checkpoint
	initial               []history.Change   // the history before the operator started
	setupCalls            int                // number of requests of the setup
	changesBeforeTeardown []history.Change   // the history up to the deletion: after it, all deletions race
	changes               []history.Change   // the whole history, set at the end of the run

	stepBlocked   bool           // the current step waits for the operator
	noWaitAfter   int            // see fault.Plan
	untriedReason string         // why the fault could not be injected
	atEnd         func()         // called before the custom resources are deleted; optional
	wg            sync.WaitGroup // restarts in progress
	terminating   atomic.Bool    // creations are rejected, as in a terminating namespace
	startFailed   atomic.Bool    // a failed start ends the scenario

	mu                sync.Mutex
	processes         map[int]Process
	allProcesses      []Process // every process that was started
	killed            map[int]bool
	started           int
	restarting        int
	exits             int
	injected          bool
	entries           []report.Entry
	violations        []report.Violation
	targetCounts      map[string]int    // requests of each target so far
	externallyChanged types.UID         // UID of the object that was changed by another manager
	generatedNames    map[string]string // generated name -> name with a placeholder
	requestLatency    time.Duration     // duration of the last measured request
	identity          *identity
	tracker           changeTracker
	deletedWhileDown  bool // the operator was killed, and is restarted only after the custom resources were deleted
}

func (x *Explorer) newRun(ctx context.Context, p *fault.Plan, known *baseline.Baseline) *run {
	r := &run{
		x: x, plan: p, baseline: known, space: space.New(ctx, p.Name), began: time.Now(),
		processes: map[int]Process{}, killed: map[int]bool{}, targetCounts: map[string]int{}, generatedNames: map[string]string{},
	}
	r.space.Timeout = x.Patience
	r.noWaitAfter = p.NoWaitAfter
	r.user = intercept.New(nil)
	r.operator = intercept.New(&hook{r})
	r.operator.Foreign = r.isForeign
	return r
}

// isForeign reports whether an event is about an object of another run. Runs are concurrent, so cluster-scoped objects of
// others are visible. An object in no namespace is foreign if neither the operator nor the scenario has written it.
func (r *run) isForeign(f intercept.Frame) bool {
	if f.Namespace != "" || f.Name == r.space.Namespace {
		return false
	}
	ours := func(c intercept.Call) bool {
		return c.Name == f.Name && c.Writes() && intercept.KindOf(c.Request) == f.Kind
	}
	return !slices.ContainsFunc(r.operator.Calls(), ours) && !slices.ContainsFunc(r.user.Calls(), ours)
}

// execute performs the run. The findings are in r afterwards.
func (r *run) execute() {
	defer func() { r.duration = time.Since(r.began) }()
	defer r.space.Close()
	r.runScenario()
	r.wg.Wait()
	r.changes = r.snapshot()
	for _, failure := range r.space.Failures() {
		r.addViolation(oracleScenario, "the scenario did not get what it waits for", failure)
	}
	if r.infraErr == nil && r.space.IsOpen() {
		r.checkAll()
	}
	for number, p := range r.running() {
		if r.plan.GracefulStop {
			r.endProcess(number, p.Stop)
		} else {
			r.endProcess(number, p.Kill)
		}
	}
	if r.log != nil {
		r.log.End()
	}
}

func (r *run) snapshot() []history.Change {
	if r.log == nil {
		return nil
	}
	return r.log.Changes()
}

// open opens the space, begins the history and runs the setup. It reports success.
func (r *run) open() bool {
	err := r.x.Opener(r.space, func(next http.RoundTripper) http.RoundTripper { return r.user.Transport(0, next) })
	if err != nil {
		if !errors.Is(err, space.ErrFailed) {
			r.infraErr = fmt.Errorf("opening a namespace: %w", err)
		}
		return false
	}
	r.log = r.x.recorder.Follow(r.space.Namespace)
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
		if !r.start() {
			return
		}
	}
	for i, step := range r.x.Steps {
		r.operator.Enter(i + 1)
		if !r.callHook(r.plan.Before, i) {
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
		if !r.callHook(r.plan.AfterIdle, i) || r.isTornDown() {
			return
		}
	}
	if r.atEnd != nil {
		r.atEnd()
	}
	if !r.startFailed.Load() {
		r.tearDown()
	}
}

// blockedAfter is the time without a write after which a step in progress counts as blocked.
const blockedAfter = 200 * time.Millisecond

// perform makes a step and injects the plan's fault. If the step waits for the operator, the fault is injected during the
// wait. perform reports whether the scenario continues.
func (r *run) perform(i int, step Step) bool {
	done := make(chan struct{})
	r.user.Touch()
	go func() {
		defer close(done)
		r.space.Check(step.Do(r.space))
	}()
	waits := func() bool {
		return !r.plan.DeletesEarly && r.hasBeenIdle(r.space.Context(), blockedAfter, func() (time.Duration, bool) {
			busy, idle := r.user.Busy()
			return idle, !busy
		})
	}
	if !r.waitStep(done, waits) {
		return false
	}
	r.operator.Touch()
	select {
	case <-done:
		r.stepBlocked = false
	default:
		r.stepBlocked = true
	}
	if !r.callHook(r.plan.During, i) || !r.waitStep(done, func() bool { return false }) {
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
	for {
		select {
		case <-done:
			return true
		case <-time.After(stepQuietPeriod / 3):
		case <-r.space.Context().Done():
			<-done
			return false
		}
		if r.isDeletedWhileDown() {
			r.space.Mute()
			r.tearDown()
			return false
		}
		if enough() {
			return true
		}
	}
}

// callHook calls a hook of the plan and reports whether the scenario continues: the start of an operator may have failed.
func (r *run) callHook(f func(fault.Run, int), step int) bool {
	if f != nil {
		f(controls{r}, step)
	}
	return !r.startFailed.Load()
}

// tearDown deletes the objects that the scenario made and the operator reconciles, and waits until the operator has
// cleaned up.
func (r *run) tearDown() {
	r.mu.Lock()
	r.tornDown = true
	r.mu.Unlock()
	r.operator.Enter(len(r.x.Steps) + 1)
	r.await(r.historyShowsWrites)
	r.changesBeforeTeardown = r.log.Changes()
	doomed := r.primaries()
	if r.terminating.Load() {
		doomed = slices.Concat(r.residue(), r.otherObjects(), doomed)
	}
	if !r.callHook(r.plan.Before, len(r.x.Steps)) {
		return
	}
	r.recordSurvivors()
	r.logStep("delete the custom resources")
	for _, c := range doomed {
		o := c.Object.DeepCopy()
		r.logStep("delete " + r.name(c))
		err := r.space.Client.Delete(r.space.Context(), o, client.PropagationPolicy("Background"))
		if client.IgnoreNotFound(err) != nil && r.space.Context().Err() == nil {
			r.infraErr = fmt.Errorf("deleting %s %s: %w", o.GetKind(), o.GetName(), err)
			return
		}
	}
	r.operator.Touch()
	if r.callHook(r.plan.During, len(r.x.Steps)) {
		r.awaitConvergence(len(r.x.Steps))
	}
}

// recordSurvivors stores the state of the objects that may outlive the custom resources.
func (r *run) recordSurvivors() {
	r.survivors = r.state()
	maps.DeleteFunc(r.survivors, func(name string, _ any) bool { return !r.mayRemain(name) })
}

// logStep adds a step of the scenario to the timeline. logFault adds an injected fault.
func (r *run) logStep(text string) { r.addEntry(report.Entry{Lane: report.Scenario, Text: text}) }

func (r *run) logFault(text string) {
	r.mu.Lock()
	r.injected = true
	r.mu.Unlock()
	r.addEntry(report.Entry{Lane: report.Fault, Text: text})
}

func (r *run) addEntry(e report.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = time.Since(r.began)
	r.entries = append(r.entries, e)
}

// addViolation reports a violation, unless its oracle is switched off. Duplicates are dropped.
func (r *run) addViolation(oracle, message, detail string) {
	if !r.x.oracleEnabled(oracle) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.violations {
		if v.Oracle == oracle && v.Message == message {
			return
		}
	}
	r.violations = append(r.violations, report.Violation{Oracle: oracle, Message: message, Detail: detail})
}

func (r *run) isTornDown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tornDown
}

func (r *run) isDeletedWhileDown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deletedWhileDown && !r.tornDown
}

func (r *run) isInjected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.injected
}
