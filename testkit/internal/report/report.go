// Package report holds the results of an exploration as plain values. It writes them as text for a terminal, as JUnit
// XML for CI systems, as JSON, and as one HTML page that needs no network.
//
// It does not depend on the exploration, and it trusts none of the texts: names, logs and objects are the operator's.
// Characters that are invisible, or that are control codes of a terminal or a browser, are escaped.
package report

import "time"

// Report is the result of one exploration of one operator.
type Report struct {
	// Operator names the explored operator, for example "immortalcontainer" or "python3 operator.py".
	Operator string `json:"operator"`
	// Steps are the names of the scenario's steps, in order.
	Steps []string `json:"steps"`
	// Seed reproduces every random choice.
	Seed int64 `json:"seed"`
	// Started and Duration are the time and the duration of the exploration.
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration"`
	// Runs lists the executed runs, the baseline first.
	Runs []Run `json:"runs"`
	// Skipped lists the plans that were not run, by reason.
	Skipped []Skipped `json:"skipped,omitempty"`
	// Notes apply to the whole exploration, for example that a kind of fault could not be tried.
	Notes []string `json:"notes,omitempty"`
}

// Skipped lists plans that were not run for one reason.
type Skipped struct {
	// Reason is a clause that continues "not run because".
	Reason string `json:"reason"`
	// Plans lists their names.
	Plans []string `json:"plans"`
}

// Outcome is the result of a run.
type Outcome string

// The outcomes.
const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	// Untried means that the fault was never injected, so that the run proves nothing.
	Untried Outcome = "untried"
)

// Run is one run of the scenario under one plan.
type Run struct {
	// Name is the plan's name, for example "crash-after/create-pod-web#1". It is unique and selects the plan for a replay.
	Name string `json:"name"`
	// Fault is the kind of fault, for example "crash-after", or "none" for a baseline run.
	Fault string `json:"fault"`
	// Summary is the fault in one sentence.
	Summary string `json:"what"`
	// Outcome is the result. UntriedReason explains an untried run in one sentence.
	Outcome       Outcome `json:"outcome"`
	UntriedReason string  `json:"why,omitempty"`
	// Duration is the duration of the whole run.
	Duration time.Duration `json:"duration"`
	// Violations lists the violated rules. It is empty unless the outcome is failed.
	Violations []Violation `json:"violations,omitempty"`
	// Timeline lists the requests, changes, faults, logs and Events in order.
	Timeline []Entry `json:"timeline,omitempty"`
	// Replay is the command that runs this plan alone.
	Replay string `json:"replay,omitempty"`
	// Again is the outcome of a second run of this plan, which shows whether Replay fails as well. It is failed only if the
	// second run had a violation with a cause of this one. It is empty if there was no second run, for example because
	// another run has the same cause.
	Again Outcome `json:"again,omitempty"`
}

// AgainNote returns what a reader has to know before a replay, or "".
func (r Run) AgainNote() string {
	switch r.Again {
	case Passed:
		return "A second run of this plan did not find this again: it depends on timing. A replay may have to be repeated."
	case Untried:
		return "A second run of this plan could not inject the fault. A replay may have to be repeated."
	case Failed:
	}
	return ""
}

// Violation is one violation of a rule.
type Violation struct {
	// Oracle names the rule, for example "end-state" or "writes-at-rest". The same name disables it.
	Oracle string `json:"oracle"`
	// Message describes the violation in one sentence and names the object.
	Message string `json:"message"`
	// Detail has the evidence in several lines, for example a diff of (-expected +actual). It may be empty.
	Detail string `json:"detail,omitempty"`
	// Cause is equal for violations of the same oracle with the same cause. If it is empty, it is derived from the message.
	Cause string `json:"cause,omitempty"`
	// Part distinguishes violations with the same cause, such as those of several fields of an object. If a violation with the
	// cause has no part, because the whole object is missing, all violations with the cause are one finding.
	Part string `json:"part,omitempty"`
	// Objects has the canonical names of the objects whose state differs, sorted. Violations with the same cause may have
	// different ones. It is empty for other violations.
	Objects []string `json:"objects,omitempty"`
}

// Lane is the source of an entry.
type Lane string

// The lanes of a timeline.
const (
	Scenario Lane = "scenario" // the test or the user
	Operator Lane = "operator" // requests of the operator
	Cluster  Lane = "cluster"  // changes of objects by any actor
	Fault    Lane = "fault"    // injected faults
	Log      Lane = "log"      // output of the operator
	Event    Lane = "event"    // Kubernetes Events
)

// Entry is one event of a timeline.
type Entry struct {
	// At is the time since the start of the run.
	At time.Duration `json:"at"`
	// Lane is the source of the entry.
	Lane Lane `json:"lane"`
	// Text is one line. Detail has further lines, for example the changed fields.
	Text   string `json:"text"`
	Detail string `json:"detail,omitempty"`
	// Bad marks the entries that explain the violation.
	Bad bool `json:"bad,omitempty"`
}

// Failures returns the runs that failed.
func (r *Report) Failures() []Run { return r.runs(Failed) }

// Count returns the number of runs with this outcome.
func (r *Report) Count(outcome Outcome) int { return len(r.runs(outcome)) }

func (r *Report) runs(outcome Outcome) []Run {
	var runs []Run
	for _, run := range r.Runs {
		if run.Outcome == outcome {
			runs = append(runs, run)
		}
	}
	return runs
}

// notRun returns the number of skipped plans.
func (r *Report) notRun() int {
	n := 0
	for _, s := range r.Skipped {
		n += len(s.Plans)
	}
	return n
}
