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

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/readiness"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
	"github.com/homeostat-dev/homeostat/testkit/internal/wire"
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
	user *wire.Wire // the scenario's requests
	wire *wire.Wire // the operator's

	broken error // the machinery failed
	ended  bool  // the custom resources were deleted
	took   time.Duration

	checkpoints []state.State
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
	r.user, r.wire = wire.New(nil), wire.New(&hook{r})
	return r
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
	r.k = testkit.New(r.probe, testkit.Through(func(next http.RoundTripper) http.RoundTripper {
		return r.user.Transport(0, next)
	}))
	r.k.Timeout = r.x.Patience
	r.log = r.x.historian.Follow(r.k.Namespace)
	if r.x.Setup != nil {
		r.x.Setup(r.k)
		r.await(r.sawCreations)
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

// start starts one more incarnation and reports whether that worked.
func (r *run) start() bool {
	r.mu.Lock()
	r.started++
	number := r.started
	r.mu.Unlock()
	r.say(fmt.Sprintf("the operator starts (process %d)", number))
	p, err := r.x.Subject.Start(r.k, Start{
		Number: number, Elect: r.plan.elect,
		Transport: func(next http.RoundTripper) http.RoundTripper {
			return r.remember(next, r.wire.Transport(number, next))
		},
	})
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if errors.Is(err, ErrNoElection) {
			r.plan.untried = err.Error()
		} else {
			r.broken = fmt.Errorf("starting the operator: %w", err)
		}
		return false
	}
	r.mu.Lock()
	r.processes[number] = p
	r.everyone = append(r.everyone, p)
	r.mu.Unlock()
	r.wire.Touch()
	go r.watchOver(number, p)
	return true
}

// tolerated is how often an operator may end by itself in a run with a fault. Whatever runs operators starts them again.
const tolerated = 3

// watchOver starts another incarnation when one ends by itself.
func (r *run) watchOver(number int, p Process) {
	select {
	case <-p.Done():
	case <-r.probe.ctx.Done():
		return
	}
	r.mu.Lock()
	meant := r.killed[number]
	r.killed[number] = true
	if !meant {
		r.exits++
		r.restarting++
	}
	exits := r.exits
	r.mu.Unlock()
	if meant || r.probe.ctx.Err() != nil {
		return
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.restarting--
	}()
	r.enter(report.Entry{Lane: report.Operator, Text: fmt.Sprintf("process %d ends by itself", number), Bad: true})
	r.forget(number)
	if r.x.has(oracleExit) && (r.plan.fault == "none" || exits > tolerated) {
		r.violate(oracleExit, "the operator ended by itself", "")
		r.probe.cancel() // nobody is there to bring about what the scenario waits for
		return
	}
	r.probe.do(func() { r.start() })
}

// crash kills an incarnation from within one of its requests, and starts the next one. No further request leaves it.
func (r *run) crash(number int) {
	r.wire.Cut(number)
	r.mu.Lock()
	if r.killed[number] {
		r.mu.Unlock()
		return
	}
	r.killed[number] = true
	r.restarting++
	r.mu.Unlock()
	r.note("the operator is killed")
	r.wg.Go(func() {
		r.probe.do(func() {
			for r.process(number) == nil { // it is killed while it starts
				select {
				case <-time.After(time.Millisecond):
				case <-r.probe.ctx.Done():
					return
				}
			}
			r.process(number).Kill()
			r.forget(number)
			switch {
			case r.plan.elect: // the other one goes on
			case r.plan.early && !r.isEnded():
				r.mu.Lock()
				r.dead = true
				r.mu.Unlock()
			default:
				r.start()
			}
		})
		r.mu.Lock()
		r.restarting--
		r.mu.Unlock()
		r.wire.Touch()
	})
}

func (r *run) process(number int) Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.processes[number]
}

func (r *run) forget(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.processes, number)
}

func (r *run) running() map[int]Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.processes)
}

func (r *run) end(number int, how func()) {
	r.mu.Lock()
	r.killed[number] = true
	r.mu.Unlock()
	r.probe.do(how)
	r.forget(number)
}

// restart ends all incarnations in order and starts one.
func (r *run) restart() bool {
	for number, p := range r.running() {
		r.say(fmt.Sprintf("the operator is stopped (process %d)", number))
		r.end(number, p.Stop)
	}
	return r.start()
}

// tearDown deletes what the scenario made and the operator looks after, and waits for the end.
func (r *run) tearDown() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.wire.Enter(len(r.x.Steps) + 1)
	r.await(r.sawCreations)
	r.counted = r.log.Changes()
	doomed := r.primaries()
	if r.closed.Load() {
		doomed = slices.Concat(r.residue(), r.others(), doomed)
	}
	r.call(r.plan.before, len(r.x.Steps))
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

// sawCreations reports whether the history shows everything that the scenario and the operator have made. On a busy machine
// it may be seconds behind.
func (r *run) sawCreations() bool {
	seen := map[types.UID]bool{}
	for _, c := range r.log.Changes() {
		seen[c.Object.GetUID()] = true
	}
	for _, w := range []*wire.Wire{r.user, r.wire} {
		calls := w.Calls()
		made := created(calls)
		for _, c := range calls {
			uid := types.UID(c.UID)
			if made[uid] && !seen[uid] && c.Namespace == r.k.Namespace && r.x.historian.Follows(c.Group, c.Resource) {
				return false
			}
		}
	}
	return true
}

// primaries are the objects that the scenario made, of kinds that the operator asked for. What was there before the operator
// started, such as a Secret, stays for its clean-up, unless it is a custom resource.
func (r *run) primaries() []history.Change {
	made := created(r.user.Calls())
	for _, c := range r.before {
		if !readiness.IsCustom(c.Object) {
			delete(made, c.Object.GetUID())
		}
	}
	var opened []wire.Kind
	for number := range r.running() {
		opened = append(opened, r.wire.Opened(number)...)
	}
	if r.known != nil {
		opened = append(opened, r.known.opened...)
	}
	var all []history.Change
	for _, c := range r.log.Current() {
		if made[c.Object.GetUID()] && slices.Contains(opened, kindOf(c)) {
			all = append(all, c)
		}
	}
	return all
}

// others are the objects that the scenario made and that are not primaries.
func (r *run) others() []history.Change {
	made := created(r.user.Calls())
	for _, c := range r.primaries() {
		delete(made, c.Object.GetUID())
	}
	return slices.DeleteFunc(r.log.Current(), func(c history.Change) bool { return !made[c.Object.GetUID()] })
}

func kindOf(c history.Change) wire.Kind {
	return wire.Kind{Group: c.Resource.Group, Resource: c.Resource.Resource}
}

// created returns the objects that the calls created or, by an apply or a patch, may have created.
func created(calls []wire.Call) map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, c := range calls {
		if c.UID != "" && c.Subresource == "" && c.Code == http.StatusCreated {
			all[types.UID(c.UID)] = true
		}
	}
	return all
}

// written returns the objects that the calls wrote.
func written(calls []wire.Call) map[types.UID]bool {
	all := map[types.UID]bool{}
	for _, c := range calls {
		if c.UID != "" && c.Writes() && c.Reached && c.Code < http.StatusMultipleChoices {
			all[types.UID(c.UID)] = true
		}
	}
	return all
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

func (r *run) names(changes []history.Change) *state.Names {
	return state.NamesOf(r.k.Namespace, changes, r.x.invented)
}

// state is what the namespace amounts to now.
func (r *run) state() state.State {
	changes := r.log.Changes()
	names := r.names(changes)
	return state.Renumber(state.Take(names, r.log.Current(), r.detail()))
}

// detail says what of an object is compared: that which the operator or the scenario wrote, and its status if the operator
// writes that of its kind.
func (r *run) detail() func(history.Change) state.Detail {
	theirs, ours := written(r.wire.Calls()), written(r.user.Calls())
	status := map[wire.Kind]bool{}
	for _, c := range r.wire.Calls() {
		if c.Subresource == "status" && c.Writes() {
			status[wire.KindOf(c.Request)] = true
		}
	}
	if r.known != nil {
		status = r.known.status
	}
	return func(c history.Change) state.Detail {
		uid := c.Object.GetUID()
		switch {
		case c.Resource.Resource == "events", !theirs[uid] && !ours[uid]:
			return state.None
		case status[kindOf(c)] && r.plan.uncount:
			return state.Verdict
		case status[kindOf(c)]:
			return state.Whole
		default:
			return state.Spec
		}
	}
}

// name is how a reader knows an object.
func (r *run) name(c history.Change) string {
	return fmt.Sprintf("%s %s", c.Object.GetKind(), c.Object.GetName())
}

// childrenNow are the objects that the operator made and that exist, the oldest first.
func (r *run) childrenNow() []child {
	made := created(r.wire.Calls())
	names := r.names(r.log.Changes())
	var all []child
	for _, c := range r.log.Current() {
		if made[c.Object.GetUID()] && c.Resource.Resource != "events" && c.Object.GetDeletionTimestamp() == nil {
			all = append(all, child{names.Of(c.Object.GetUID()), kindOf(c), parts(r.settable(c.Object))})
		}
	}
	return all
}
