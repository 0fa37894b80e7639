package explore

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// run is one run of the scenario in a namespace of its own.
type run struct {
	x        *Explorer
	plan     *plan
	baseline *baseline // nil while it is learned
	tb       *recordingTB
	began    time.Time

	k        *testkit.K
	log      *history.Log
	user     *intercept.Interceptor // the scenario's requests
	operator *intercept.Interceptor // the operator's

	infraErr error // the machinery failed
	tornDown bool  // the custom resources were deleted
	duration time.Duration

	checkpoints           []state.State
	survivors             state.State      // what may outlive the custom resources, as it was when they were deleted
	children              [][]child        // at each of them
	initial               []history.Change // what was there before the operator started
	setupCalls            int              // how many requests of the scenario it took
	changesBeforeTeardown []history.Change // until the custom resources were deleted: what follows is a race of everybody's deletions
	changes               []history.Change // the whole history, once the run is over

	stepBlocked bool           // the step that is being made waits for something
	wg          sync.WaitGroup // restarts under way
	terminating atomic.Bool    // nothing can be created any more

	mu                sync.Mutex
	processes         map[int]Process
	allProcesses      []Process // that was ever started
	killed            map[int]bool
	started           int
	restarting        int
	exits             int
	injected          bool
	entries           []report.Entry
	violations        []report.Violation
	targetCounts      map[string]int    // how often each target was called
	externallyChanged types.UID         // of the object that somebody else changed
	generatedNames    map[string]string // generated names and what they were generated from
	requestLatency    time.Duration     // what a request took a moment ago
	identity          *identity
	tracker           changeTracker
	deletedWhileDown  bool // the operator was killed, and the custom resources are to be deleted before it is started again
}

func (x *Explorer) newRun(ctx context.Context, p *plan, known *baseline) *run {
	r := &run{
		x: x, plan: p, baseline: known, tb: newRecordingTB(ctx, p.name), began: time.Now(),
		processes: map[int]Process{}, killed: map[int]bool{}, targetCounts: map[string]int{}, generatedNames: map[string]string{},
	}
	r.user, r.operator = intercept.New(nil), intercept.New(&hook{r})
	r.operator.Foreign = r.isForeign
	return r
}

// isForeign reports whether news is about an object in no namespace that neither the operator nor the scenario has written:
// that of another run, which goes on at the same time.
func (r *run) isForeign(f intercept.Frame) bool {
	if f.Namespace != "" || f.Name == r.k.Namespace {
		return false
	}
	ours := func(c intercept.Call) bool {
		return c.Name == f.Name && c.Writes() && intercept.KindOf(c.Request) == f.Kind
	}
	return !slices.ContainsFunc(r.operator.Calls(), ours) && !slices.ContainsFunc(r.user.Calls(), ours)
}

// execute makes the run. Everything it found is in r afterwards.
func (r *run) execute() {
	defer func() { r.duration = time.Since(r.began) }()
	defer r.tb.close()
	r.tb.runIsolated(r.runScenario)
	r.wg.Wait()
	r.changes = r.snapshot()
	for _, failure := range r.tb.reportedFailures() {
		r.addViolation(oracleScenario, "the scenario did not get what it waits for", failure)
	}
	if r.infraErr == nil && r.k != nil {
		r.checkAll()
	}
	for number, p := range r.running() {
		if r.plan.gracefulStop {
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

// runScenario is the run itself.
func (r *run) runScenario() {
	r.k = testkit.New(r.tb, testkit.WithClientTransport(func(next http.RoundTripper) http.RoundTripper {
		return r.user.Transport(0, next)
	}))
	r.k.Timeout = r.x.Patience
	r.log = r.x.recorder.Follow(r.k.Namespace)
	if r.x.Setup != nil {
		r.x.Setup(r.k)
		r.await(r.historyShowsWrites)
	}
	r.initial, r.setupCalls = r.log.Changes(), len(r.user.Calls())
	r.operator.Enter(0)
	for range max(1, r.plan.replicas) {
		if !r.start() {
			return
		}
	}
	for i, step := range r.x.Steps {
		r.operator.Enter(i + 1)
		r.callHook(r.plan.before, i)
		r.logStep(step.Name)
		if !r.perform(i, step) {
			return
		}
		if r.plan.noWaitAfter == i+1 {
			continue // the next step comes before the operator is done with this one
		}
		if !r.awaitStep(i) {
			return
		}
		if !r.awaitConvergence(i) {
			return
		}
		r.callHook(r.plan.afterIdle, i)
		if r.isTornDown() {
			return
		}
	}
	r.callHook(r.plan.atEnd, len(r.x.Steps))
	r.tearDown()
}

// blockedAfter is for how long a step that goes on must not have written anything to count as waiting.
const blockedAfter = 200 * time.Millisecond

// perform makes a step and, while the step waits for what should come of it, what the plan has for this moment. It reports
// whether the scenario goes on.
func (r *run) perform(i int, step Step) bool {
	done := make(chan struct{})
	r.user.Touch()
	go func() { // which a failure ends
		defer close(done)
		step.Do(r.k)
	}()
	waits := func() bool {
		return !r.plan.deletesEarly && r.hasBeenIdle(r.k.Context(), blockedAfter, func() (time.Duration, bool) {
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
	r.callHook(r.plan.during, i)
	if !r.waitStep(done, func() bool { return false }) {
		return false
	}
	return !r.isTornDown() && !r.tb.Failed()
}

// awaitStep lets the step be waited for, if somebody has said how. It reports whether the scenario goes on.
func (r *run) awaitStep(i int) bool {
	if r.x.Await == nil {
		return true
	}
	done := make(chan struct{})
	go func() { // which a failure ends
		defer close(done)
		r.x.Await(r.k, i)
	}()
	return r.waitStep(done, func() bool { return false }) && !r.isTornDown() && !r.tb.Failed()
}

// waitStep waits for the end of a step, or until enough is true. It reports whether the scenario goes on: it does not if the
// custom resources were to be deleted meanwhile, and then nobody minds what the step waits for.
func (r *run) waitStep(done <-chan struct{}, enough func() bool) bool {
	for {
		select {
		case <-done:
			return true
		case <-time.After(stepQuietPeriod / 3): //nolint:mnd // often enough
		case <-r.k.Context().Done():
			<-done
			return false
		}
		if r.isDeletedWhileDown() {
			r.tb.mute()
			r.tearDown()
			return false
		}
		if enough() {
			return true
		}
	}
}

func (r *run) callHook(f func(*run, int), step int) {
	if f != nil {
		f(r, step)
	}
}

// tearDown deletes what the scenario made and the operator looks after, and waits for the end.
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
	r.callHook(r.plan.before, len(r.x.Steps))
	r.recordSurvivors()
	r.logStep("delete the custom resources")
	for _, c := range doomed {
		o := c.Object.DeepCopy()
		r.logStep("delete " + r.name(c))
		err := r.k.Client.Delete(r.k.Context(), o, client.PropagationPolicy("Background"))
		if client.IgnoreNotFound(err) != nil && r.k.Context().Err() == nil {
			r.infraErr = fmt.Errorf("deleting %s %s: %w", o.GetKind(), o.GetName(), err)
			return
		}
	}
	r.operator.Touch()
	r.callHook(r.plan.during, len(r.x.Steps))
	r.awaitConvergence(len(r.x.Steps))
}

// recordSurvivors remembers what may outlive the custom resources.
func (r *run) recordSurvivors() {
	r.survivors = r.state()
	maps.DeleteFunc(r.survivors, func(name string, _ any) bool { return !r.mayRemain(name) })
}

// logStep enters in the timeline what the scenario does, note what was injected.
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

// addViolation reports something that is wrong, unless that is not asked for.
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
