package explore

import (
	"sync"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
)

// outcome collects the timeline of a run, its violations, and why it does not count. It is safe for concurrent use.
type outcome struct {
	began   time.Time
	enabled func(oracle string) bool

	mu             sync.Mutex
	entries        []report.Entry
	violations     []report.Violation
	injected       map[string]bool   // by the name of the plan
	faultAt        time.Time         // the first fault
	untriedReasons map[string]string // why a fault could not be injected, by the name of the plan
	discarded      bool              // violations do not count
	infraErr       error             // an error of the test infrastructure
	tornDown       bool              // the custom resources were deleted
}

// logStep adds a step of the scenario to the timeline. logFault adds an injected fault.
func (o *outcome) logStep(text string) { o.addEntry(report.Entry{Lane: report.Scenario, Text: text}) }

func (o *outcome) logFault(p *fault.Plan, text string) {
	o.mu.Lock()
	o.injected[p.Name] = true
	if o.faultAt.IsZero() {
		o.faultAt = time.Now()
	}
	o.mu.Unlock()
	o.addEntry(report.Entry{Lane: report.Fault, Text: text})
}

func (o *outcome) addEntry(e report.Entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e.At = time.Since(o.began)
	o.entries = append(o.entries, e)
}

// addViolation reports a violation, unless its oracle is switched off. Duplicates are dropped.
func (o *outcome) addViolation(oracle, message, detail string) {
	if !o.enabled(oracle) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.discarded {
		return
	}
	for _, v := range o.violations {
		if v.Oracle == oracle && v.Message == message {
			return
		}
	}
	o.violations = append(o.violations, report.Violation{Oracle: oracle, Message: message, Detail: detail})
}

// addViolations reports violations that hold for every operator (package oracle).
func (o *outcome) addViolations(violations []report.Violation) {
	for _, v := range violations {
		o.addViolation(v.Oracle, v.Message, v.Detail)
	}
}

func (o *outcome) hasViolations() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.violations) > 0
}

func (o *outcome) isInjected(p *fault.Plan) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.injected[p.Name]
}

func (o *outcome) isTornDown() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tornDown
}

func (o *outcome) setTornDown() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tornDown = true
}

// abort records an error of the test infrastructure.
func (o *outcome) abort(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.infraErr = err
}

func (o *outcome) infraError() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.infraErr
}

// setUntriedReason records why the fault cannot be injected.
func (o *outcome) setUntriedReason(p *fault.Plan, reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.untriedReasons[p.Name] = reason
}

// discard is setUntriedReason after the fault has changed something: what follows is no violation. A combined run has other
// faults as well, and its violations let each be tried alone.
func (r *run) discard(p *fault.Plan, reason string) {
	r.setUntriedReason(p, reason)
	r.setDiscarded(!r.plan.IsCombined())
}

func (o *outcome) setDiscarded(is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.discarded = is
}

// untriedReason returns the reason, or "" if there is none.
func (o *outcome) untriedReason(p *fault.Plan) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.untriedReasons[p.Name]
}
