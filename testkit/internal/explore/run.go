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
	x     *Explorer
	plan  *plan
	known *knowledge // nil while it is learned
	probe *probe
	began time.Time

	k    *testkit.K
	log  *history.Log
	user *intercept.Interceptor // the scenario's requests
	wire *intercept.Interceptor // the operator's

	broken error // the machinery failed
	ended  bool  // the custom resources were deleted
	took   time.Duration

	checkpoints []state.State
	kept        state.State      // what may outlive the custom resources, as it was when they were deleted
	children    [][]child        // at each of them
	before      []history.Change // what was there before the operator started
	prepared    int              // how many requests of the scenario it took
	counted     []history.Change // until the custom resources were deleted: what follows is a race of everybody's deletions
	changes     []history.Change // the whole history, once the run is over

	waits  bool           // the step that is being made waits for something
	wg     sync.WaitGroup // restarts under way
	closed atomic.Bool    // nothing can be created any more

	mu         sync.Mutex
	processes  map[int]Process
	everyone   []Process // that was ever started
	killed     map[int]bool
	started    int
	restarting int
	exits      int
	fired      bool
	said       []report.Entry
	violations []report.Violation
	numbers    map[string]int    // how often each target was called
	touched    types.UID         // of the object that somebody else changed
	made       map[string]string // generated names and what they were generated from
	pace       time.Duration     // what a request took a moment ago
	identity   *identity
	news       news
	dead       bool // the operator was killed, and the custom resources are to be deleted before it is started again
}

func (x *Explorer) newRun(ctx context.Context, p *plan, known *knowledge) *run {
	r := &run{
		x: x, plan: p, known: known, probe: newProbe(ctx, p.name), began: time.Now(),
		processes: map[int]Process{}, killed: map[int]bool{}, numbers: map[string]int{}, made: map[string]string{},
	}
	r.user, r.wire = intercept.New(nil), intercept.New(&hook{r})
	r.wire.Foreign = r.isForeign
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
	return !slices.ContainsFunc(r.wire.Calls(), ours) && !slices.ContainsFunc(r.user.Calls(), ours)
}

// execute makes the run. Everything it found is in r afterwards.
func (r *run) execute() {
	defer func() { r.took = time.Since(r.began) }()
	defer r.probe.close()
	r.probe.do(r.script)
	r.wg.Wait()
	r.changes = r.snapshot()
	for _, failure := range r.probe.taken() {
		r.violate(oracleScenario, "the scenario did not get what it waits for", failure)
	}
	if r.broken == nil && r.k != nil {
		r.judge()
	}
	for number, p := range r.running() {
		if r.plan.orderly {
			r.end(number, p.Stop)
		} else {
			r.end(number, p.Kill)
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

// script is the run itself.
func (r *run) script() {
	r.k = testkit.New(r.probe, testkit.WithClientTransport(func(next http.RoundTripper) http.RoundTripper {
		return r.user.Transport(0, next)
	}))
	r.k.Timeout = r.x.Patience
	r.log = r.x.historian.Follow(r.k.Namespace)
	if r.x.Setup != nil {
		r.x.Setup(r.k)
		r.await(r.sawWrites)
	}
	r.before, r.prepared = r.log.Changes(), len(r.user.Calls())
	r.wire.Enter(0)
	for range max(1, r.plan.replicas) {
		if !r.start() {
			return
		}
	}
	for i, step := range r.x.Steps {
		r.wire.Enter(i + 1)
		r.call(r.plan.before, i)
		r.say(step.Name)
		if !r.perform(i, step) {
			return
		}
		if r.plan.hasty == i+1 {
			continue // the next step comes before the operator is done with this one
		}
		if !r.wait(i) {
			return
		}
		if !r.settle(i) {
			return
		}
		r.call(r.plan.rested, i)
		if r.isEnded() {
			return
		}
	}
	r.call(r.plan.finally, len(r.x.Steps))
	r.tearDown()
}

// acts is for how long a step that goes on must not have written anything to count as waiting.
const acts = 200 * time.Millisecond

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
		return !r.plan.early && r.still(r.k.Context(), acts, func() (time.Duration, bool) {
			busy, idle := r.user.Busy()
			return idle, !busy
		})
	}
	if !r.until(done, waits) {
		return false
	}
	r.wire.Touch()
	select {
	case <-done:
		r.waits = false
	default:
		r.waits = true
	}
	r.call(r.plan.during, i)
	if !r.until(done, func() bool { return false }) {
		return false
	}
	return !r.isEnded() && !r.probe.Failed()
}

// wait lets the step be waited for, if somebody has said how. It reports whether the scenario goes on.
func (r *run) wait(i int) bool {
	if r.x.Await == nil {
		return true
	}
	done := make(chan struct{})
	go func() { // which a failure ends
		defer close(done)
		r.x.Await(r.k, i)
	}()
	return r.until(done, func() bool { return false }) && !r.isEnded() && !r.probe.Failed()
}

// until waits for the end of a step, or until enough is true. It reports whether the scenario goes on: it does not if the
// custom resources were to be deleted meanwhile, and then nobody minds what the step waits for.
func (r *run) until(done <-chan struct{}, enough func() bool) bool {
	for {
		select {
		case <-done:
			return true
		case <-time.After(guard / 3): //nolint:mnd // often enough
		case <-r.k.Context().Done():
			<-done
			return false
		}
		if r.isDead() {
			r.probe.mute()
			r.tearDown()
			return false
		}
		if enough() {
			return true
		}
	}
}

func (r *run) call(f func(*run, int), step int) {
	if f != nil {
		f(r, step)
	}
}

// tearDown deletes what the scenario made and the operator looks after, and waits for the end.
func (r *run) tearDown() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.wire.Enter(len(r.x.Steps) + 1)
	r.await(r.sawWrites)
	r.counted = r.log.Changes()
	doomed := r.primaries()
	if r.closed.Load() {
		doomed = slices.Concat(r.residue(), r.others(), doomed)
	}
	r.call(r.plan.before, len(r.x.Steps))
	r.keep()
	r.say("delete the custom resources")
	for _, c := range doomed {
		o := c.Object.DeepCopy()
		r.say("delete " + r.name(c))
		err := r.k.Client.Delete(r.k.Context(), o, client.PropagationPolicy("Background"))
		if client.IgnoreNotFound(err) != nil && r.k.Context().Err() == nil {
			r.broken = fmt.Errorf("deleting %s %s: %w", o.GetKind(), o.GetName(), err)
			return
		}
	}
	r.wire.Touch()
	r.call(r.plan.during, len(r.x.Steps))
	r.settle(len(r.x.Steps))
}

// keep remembers what may outlive the custom resources.
func (r *run) keep() {
	r.kept = r.state()
	maps.DeleteFunc(r.kept, func(name string, _ any) bool { return !r.mayStay(name) })
}

// say enters in the timeline what the scenario does, note what was injected.
func (r *run) say(text string) { r.enter(report.Entry{Lane: report.Scenario, Text: text}) }

func (r *run) note(text string) {
	r.mu.Lock()
	r.fired = true
	r.mu.Unlock()
	r.enter(report.Entry{Lane: report.Fault, Text: text})
}

func (r *run) enter(e report.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = time.Since(r.began)
	r.said = append(r.said, e)
}

// violate reports something that is wrong, unless that is not asked for.
func (r *run) violate(oracle, message, detail string) {
	if !r.x.has(oracle) {
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

func (r *run) isEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

func (r *run) isDead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead && !r.ended
}

func (r *run) isFired() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fired
}
