// Package report holds what an exploration found, as plain values, and writes it as text for a terminal, as JUnit XML
// for CI systems, as JSON, and as one HTML page that needs no network.
//
// It knows nothing of how the findings came about, and it trusts none of the texts in them: names, logs and objects are
// the operator's, and what would not be seen, or would be obeyed by a terminal or a browser, is written as an escape.
package report

import "time"

// Report is the outcome of one exploration of one operator.
type Report struct {
	// Operator names what was explored, for example "immortalcontainer" or "python3 operator.py".
	Operator string `json:"operator"`
	// Steps are the names of the scenario's steps, in order.
	Steps []string `json:"steps"`
	// Seed reproduces every choice that was made at random.
	Seed int64 `json:"seed"`
	// Started and Duration say when and for how long it was explored.
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration"`
	// Runs are the runs that were made, the fault-free ones first.
	Runs []Run `json:"runs"`
	// Skipped are the plans that were not run, by reason.
	Skipped []Skipped `json:"skipped,omitempty"`
	// Notes are what the reader should know about the whole, for example that a kind of fault could not be tried.
	Notes []string `json:"notes,omitempty"`
}

// Skipped counts plans that were not run for one reason.
type Skipped struct {
	// Reason is a clause that goes on after "not run because".
	Reason string `json:"reason"`
	// Plans are their names.
	Plans []string `json:"plans"`
}

// Outcome is how a run ended.
type Outcome string

// The outcomes.
const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
	// Untried means that the fault never came about, so that the run says nothing.
	Untried Outcome = "untried"
)

// Run is one run of the scenario under one plan.
type Run struct {
	// Name is the plan's, for example "crash-after/create-pod-web#1". It is unique and selects the plan for a replay.
	Name string `json:"name"`
	// Fault is the kind of fault, for example "crash-after"; "none" for a fault-free run.
	Fault string `json:"fault"`
	// What says in one sentence what was done to the operator.
	What string `json:"what"`
	// Outcome is how it ended. Why explains an untried run in one sentence.
	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why,omitempty"`
	// Duration is of the whole run.
	Duration time.Duration `json:"duration"`
	// Violations are what was wrong; there are some if and only if the outcome is failed.
	Violations []Violation `json:"violations,omitempty"`
	// Timeline is what happened, in order.
	Timeline []Entry `json:"timeline,omitempty"`
	// Replay is the command that runs this plan alone.
	Replay string `json:"replay,omitempty"`
}

// Violation is one broken promise.
type Violation struct {
	// Oracle names who noticed, for example "end-state" or "writes-at-rest". It is the name by which it is switched off.
	Oracle string `json:"oracle"`
	// Message says in one sentence what is wrong, naming the object.
	Message string `json:"message"`
	// Detail shows it, over several lines, for example as a diff of (-expected +actual). It may be empty.
	Detail string `json:"detail,omitempty"`
}

// Lane is who did something.
type Lane string

// The lanes of a timeline.
const (
	Scenario Lane = "scenario" // the test or the user
	Operator Lane = "operator" // requests of the operator
	Cluster  Lane = "cluster"  // changes of objects, whoever made them
	Fault    Lane = "fault"    // what was injected
	Log      Lane = "log"      // what the operator printed
	Event    Lane = "event"    // Kubernetes Events
)

// Entry is one thing that happened.
type Entry struct {
	// At is the time since the run began.
	At time.Duration `json:"at"`
	// Lane says who did it.
	Lane Lane `json:"lane"`
	// Text is one line, Detail more of it, for example which fields were changed.
	Text   string `json:"text"`
	Detail string `json:"detail,omitempty"`
	// Bad marks what the reader should look at first.
	Bad bool `json:"bad,omitempty"`
}

// Failures returns the runs that failed.
func (r *Report) Failures() []Run { return r.runs(Failed) }

// Count returns how many runs ended that way.
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

// notRun returns how many plans were skipped.
func (r *Report) notRun() int {
	n := 0
	for _, s := range r.Skipped {
		n += len(s.Plans)
	}
	return n
}
