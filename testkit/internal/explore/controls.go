package explore

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
)

// controls implements fault.Run for one plan, which may be a part of the run's plan.
type controls struct {
	r    *run
	plan *fault.Plan
}

func (c controls) Space() *space.Space              { return c.r.space }
func (c controls) CurrentObjects() []history.Change { return c.r.log.CurrentObjects() }
func (c controls) Changes() []history.Change        { return c.r.log.Changes() }
func (c controls) Operator() *intercept.Interceptor { return c.r.operator }
func (c controls) LogFault(text string)             { c.r.logFault(c.plan, text) }
func (c controls) IsStepBlocked() bool              { return c.r.stepBlocked }
func (c controls) WaitAfterStep()                   { c.r.noWaitAfter = 0 }

func (c controls) MarkUntried(reason string) { c.r.setUntriedReason(c.plan, reason) }
func (c controls) IsUntried() bool           { return c.r.untriedReason(c.plan) != "" }

func (c controls) Start() bool       { return c.r.procs.start() }
func (c controls) Crash(process int) { c.r.procs.crash(process, c.plan) }
func (c controls) KillAll()          { c.r.procs.killAll() }
func (c controls) Running() int      { return len(c.r.procs.running()) }

func (c controls) WaitIdle()              { c.r.idle.WaitIdle() }
func (c controls) Converge(step int)      { c.r.awaitConvergence(step) }
func (c controls) Await(done func() bool) { c.r.await(done) }
func (c controls) AwaitWrites()           { c.r.await(c.r.historyShowsWrites) }
func (c controls) TearDown()              { c.r.tearDown() }
func (c controls) Terminate()             { c.r.terminating.Store(true) }

func (c controls) Primaries() []history.Change                 { return c.r.primaries() }
func (c controls) CreatedByUser() map[types.UID]bool           { return created(c.r.user.Calls()) }
func (c controls) IsPrimary(kind intercept.GroupResource) bool { return c.r.isPrimary(kind) }

func (c controls) Child(child baseline.Child) (history.Change, bool) {
	names := c.r.names(c.r.log.Changes())
	for _, h := range c.r.log.CurrentObjects() {
		if names.Of(h.Object.GetUID()) == child.Name {
			return h, true
		}
	}
	return history.Change{}, false
}

func (c controls) NoteChange(uid types.UID) {
	c.r.view.mu.Lock()
	defer c.r.view.mu.Unlock()
	c.r.externallyChanged[uid] = true
}
