package explore

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// plan is one fault at one place of a run.
type plan struct {
	name, fault, summary string

	alwaysApplies bool   // the run counts even if nothing is injected
	untriedReason string // set during the run if the fault cannot be injected
	skipCounts    bool   // creations and deletions may differ from the baseline's
	extraQuiet    bool   // the operator gets a longer quiet period
	gracefulStop  bool   // the operator is stopped gracefully at the end
	elect         bool   // the operator runs with leader election
	deletesEarly  bool   // the custom resources are deleted before the end of the scenario

	replicas    int // number of concurrent processes; 0 means 1
	noWaitAfter int // the step, from 1, after which the next one follows at once; 0 means none

	// Hooks, all optional. before is called before a step, during right after it, afterIdle when the operator is idle again,
	// and atEnd after all steps. Steps count from 0. For before and during, the deletion of the custom resources is one more
	// step at the end.
	before, during, afterIdle, atEnd func(r *run, step int)

	// id is the request that request and answer apply to. They have the contracts of the methods of [intercept.Hook].
	id      string
	request func(r *run, req *http.Request, c *intercept.Call) (*http.Response, error)
	answer  func(r *run, c *intercept.Call, resp *http.Response) (*http.Response, error)
}

// hook numbers the operator's requests and injects the plan's fault at one of them.
type hook struct{ run *run }

// Before implements intercept.Hook.
func (h *hook) Before(req *http.Request, c *intercept.Call) (*http.Response, error) {
	if c.Verb == "watch" || intercept.IsLease(c.Request) || c.Resource == "" {
		return nil, nil //nolint:nilnil // the request passes
	}
	t := h.run.targetOf(c)
	h.run.mu.Lock()
	h.run.targetCounts[t.group()]++
	t.number = h.run.targetCounts[t.group()]
	h.run.mu.Unlock()
	if h.run.isBlockedByTermination(req.Context(), c) {
		return terminatingResponse(req, c), nil
	}
	if t.id() != h.run.plan.id {
		return nil, nil //nolint:nilnil // the request passes
	}
	c.Chosen = true
	if h.run.plan.request == nil {
		return nil, nil //nolint:nilnil // the request passes
	}
	return h.run.plan.request(h.run, req, c)
}

// After implements intercept.Hook.
func (h *hook) After(_ *http.Request, c *intercept.Call, resp *http.Response) (*http.Response, error) {
	if c.Verb == "create" {
		h.run.groupOf(c) // stores the generated name
	}
	if !c.Chosen || h.run.plan.answer == nil {
		return resp, nil
	}
	return h.run.plan.answer(h.run, c, resp)
}

// maxRepeats is the number of identical requests about one object at which faults are injected.
const maxRepeats = 3

// planner collects the plans, and those that are not worth a run.
type planner struct {
	x        *Explorer
	baseline *baseline
	plans    []Plan
	skipped  map[string][]string
}

// Plans returns the plans in an order determined by the seed, and those that are skipped, by reason. It requires the
// baseline.
func (x *Explorer) Plans() ([]Plan, []report.Skipped) {
	p := &planner{x: x, baseline: x.baseline, skipped: map[string][]string{}}
	p.addCrashes()
	p.addRequestFaults()
	p.addWatchFaults()
	p.addDrifts()
	p.addLifecycleFaults()
	var skipped []report.Skipped
	for _, reason := range slices.Sorted(mapKeys(p.skipped)) {
		skipped = append(skipped, report.Skipped{Reason: reason, Plans: p.skipped[reason]})
	}
	rand.New(rand.NewPCG(uint64(x.Seed), 0)).Shuffle(len(p.plans), func(i, j int) { //nolint:gosec // an order is no secret
		p.plans[i], p.plans[j] = p.plans[j], p.plans[i]
	})
	return p.plans, skipped
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (p *planner) add(one *plan) {
	if !p.x.wantsFault(one.fault) || p.x.Only != nil && !p.x.Only(one.name) {
		return
	}
	p.plans = append(p.plans, Plan{one})
}

func (p *planner) skip(fault, what, reason string) {
	if p.x.wantsFault(fault) {
		p.skipped[reason] = append(p.skipped[reason], fault+"/"+what)
	}
}

// skipReason returns why a fault at a request cannot matter, or "".
func skipReason(t target) string {
	switch {
	case t.kind.Resource == "events":
		return "nothing depends on Events"
	case t.writes && !t.effective:
		return "the write changes nothing"
	case t.number > maxRepeats:
		return fmt.Sprintf("the same request about the same object was tried %d times already", maxRepeats)
	default:
		return ""
	}
}

// addCrashes adds kills of the operator before and after each of its writes.
func (p *planner) addCrashes() {
	last := -1 // index of the last effective write
	for i, t := range p.baseline.calls {
		if !t.writes {
			continue
		}
		if why := skipReason(t); why != "" {
			p.skip("crash", t.id(), why)
			continue
		}
		if last >= 0 && last == i-1 && p.baseline.calls[last].step == t.step {
			p.skip("crash-before", t.id(), "it is the same moment as right after the write before")
		} else {
			p.add(&plan{
				name: "crash-before/" + t.id(), fault: "crash-before", id: t.id(),
				summary: fmt.Sprintf("the operator was killed right before the %s, and started again", t),
				request: func(r *run, _ *http.Request, c *intercept.Call) (*http.Response, error) {
					r.crash(c.Process)
					return nil, intercept.ErrSevered
				},
			})
		}
		last = i
		p.add(&plan{
			name: "crash-after/" + t.id(), fault: "crash-after", id: t.id(),
			summary: fmt.Sprintf("the operator was killed right after the %s, and started again", t),
			answer: func(r *run, c *intercept.Call, resp *http.Response) (*http.Response, error) {
				_ = resp.Body.Close()
				r.crash(c.Process)
				return nil, intercept.ErrSevered
			},
		})
		if t.creates || p.baseline.restored[t.kind.String()+"/"+t.object] {
			p.add(crashDeleted(t, len(p.x.Steps)))
		}
		p.skip("crash-lost", t.id(), "it is the same as crash-after: nobody is left to hear the answer")
	}
}

// crashDeleted kills the operator right after a write, and deletes the custom resources before the restart.
func crashDeleted(t target, steps int) *plan {
	return &plan{
		name: "crash-deleted/" + t.id(), fault: "crash-deleted", id: t.id(),
		extraQuiet: true, skipCounts: true, deletesEarly: true,
		summary: fmt.Sprintf(
			"the operator was killed right after the %s, and the custom resources were deleted before it was started again", t),
		answer: func(r *run, c *intercept.Call, resp *http.Response) (*http.Response, error) {
			_ = resp.Body.Close()
			r.crash(c.Process)
			return nil, intercept.ErrSevered
		},
		during: func(r *run, at int) {
			if at == steps && len(r.running()) == 0 {
				r.start()
			}
		},
	}
}

// failures are errors that an API server returns occasionally.
var failures = []struct {
	fault, what string
	code        int32
	reason      metav1.StatusReason
	reads       bool // injected at reads as well
}{
	{"error-500", "an internal error (500)", http.StatusInternalServerError, metav1.StatusReasonInternalError, true},
	{"error-503", "503 Service Unavailable", http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, false},
	{
		"error-429", "429 Too Many Requests with Retry-After", http.StatusTooManyRequests,
		metav1.StatusReasonTooManyRequests, false,
	},
}

// addRequestFaults adds failed requests and lost responses.
func (p *planner) addRequestFaults() {
	for _, t := range p.baseline.calls {
		why := skipReason(t)
		for _, f := range failures {
			switch {
			case why != "":
				p.skip(f.fault, t.id(), why)
			case !t.writes && !f.reads:
				p.skip(f.fault, t.id(), "a read that fails is repeated, whatever the error")
			default:
				p.add(&plan{
					name: f.fault + "/" + t.id(), fault: f.fault, id: t.id(), extraQuiet: true,
					summary: fmt.Sprintf("the %s was answered with %s and not carried out", t, f.what),
					request: func(r *run, req *http.Request, _ *intercept.Call) (*http.Response, error) {
						r.logFault("the API server answers " + f.what)
						return rejectionResponse(req, metav1.Status{
							Message: "injected by testkit", Reason: f.reason, Code: f.code,
						}), nil
					},
				})
			}
		}
		if !t.writes {
			continue
		}
		if why != "" {
			p.skip("lost-answer", t.id(), why)
			p.skip("conflict", t.id(), why)
			continue
		}
		p.add(&plan{
			name: "lost-answer/" + t.id(), fault: "lost-answer", id: t.id(), extraQuiet: true,
			summary: fmt.Sprintf("the %s was carried out, but its answer never arrived", t),
			answer: func(r *run, _ *intercept.Call, resp *http.Response) (*http.Response, error) {
				_ = resp.Body.Close()
				r.logFault("the answer is lost")
				return nil, errLost
			},
		})
		p.addConflict(t)
	}
}

// addConflict adds a change of the object by another manager, right before the operator's write.
func (p *planner) addConflict(t target) {
	switch {
	case t.verb == "create", t.object == "":
		p.skip("conflict", t.id(), "there is nothing yet that somebody else could change")
	case t.verb == "delete":
		p.skip("conflict", t.id(), "a deletion is not computed from a version")
	default:
		p.add(&plan{
			name: "conflict/" + t.id(), fault: "conflict", id: t.id(), extraQuiet: true,
			summary: fmt.Sprintf("somebody else changed an annotation of the object right before the %s", t),
			request: func(r *run, _ *http.Request, c *intercept.Call) (*http.Response, error) {
				r.mutateExternally(c)
				return nil, nil //nolint:nilnil // the request passes
			},
		})
	}
}

// addWatchFaults adds delayed, closed, broken and expired watches.
func (p *planner) addWatchFaults() {
	for _, kind := range p.baseline.opened {
		if p.baseline.watchEvents[kind] == 0 {
			p.skip("lag", kind.String(), "the operator is never told of an object of that kind")
			continue
		}
		for step := range p.x.Steps {
			p.add(lag(kind, step, p.x.Steps[step].Name))
		}
		for step := range len(p.x.Steps) - 1 {
			p.add(missed(kind, step, p.x.Steps[step].Name, p.x.Steps[step+1].Name))
		}
	}
	kinds := p.baseline.opened
	for step, s := range p.x.Steps {
		p.add(watchFault("watch-closed", "all watches ended without a word", step, s.Name, kinds, (*intercept.Interceptor).Close))
		p.add(watchFault("watch-broken", "the connections of all watches broke", step, s.Name, kinds,
			(*intercept.Interceptor).Break))
		p.add(watchFault("watch-expired", "all watches ended with 410 Gone", step, s.Name, kinds, (*intercept.Interceptor).Expire))
	}
}

// addDrifts adds deletions and changes of children.
func (p *planner) addDrifts() {
	tried := map[string]bool{}
	for step, children := range slices.Backward(p.baseline.children) {
		for _, c := range children {
			if tried[c.name] {
				continue
			}
			tried[c.name] = true
			if c.kind.String() == "jobs.batch" {
				p.skip("drift", c.name, "a Job is made for what happens once: whoever deletes it, done or not, may mean that")
				continue
			}
			if slices.Contains(p.x.Unique, c.name) {
				p.skip("drift-deleted", c.name, "the operator cannot make it again as it was")
			} else {
				p.add(driftDelete(c, step))
				p.add(driftUnseen(c, step))
			}
			if p.baseline.hasGeneratedData(c) {
				p.skip("drift-edited", c.name, "a Secret with something made up may be meant to be made once and never touched again")
				continue
			}
			if p.x.isExternallyManaged(c.name) {
				p.skip("drift-edited", c.name, "the operator leaves it to others")
				continue
			}
			p.add(driftEdit(c, "", step))
			for i, part := range c.parts {
				if i > 0 && i < maxEdits { // the first part is that of the first field
					p.add(driftEdit(c, part, step))
				}
			}
		}
	}
}

// maxEdits is the number of fields of a child that are changed, each in a run of its own.
const maxEdits = 4

// hasGeneratedData reports whether the operator generates values of a Secret: they differ between two baseline runs.
func (b *baseline) hasGeneratedData(c child) bool {
	if c.kind.String() != "secrets" {
		return false
	}
	for place := range b.mask {
		if strings.HasPrefix(place, c.name+".data.") {
			return true
		}
	}
	return false
}

// addLifecycleFaults adds early deletions, downtimes and failovers.
func (p *planner) addLifecycleFaults() {
	for step, s := range p.x.Steps {
		p.add(earlyDeletion(step, s.Name))
		p.add(namespaceDeleted(step, s.Name))
		p.add(failover(step, s.Name))
		p.add(down(step, s.Name))
		if step > 0 {
			p.add(downTwoSteps(step-1, p.x.Steps[step-1].Name, s.Name))
		}
	}
	p.add(down(len(p.x.Steps), "deletion"))
}

// slug turns a step's name into a part of a plan's name.
func slug(name string) string { return strings.Join(strings.Fields(name), "-") }
