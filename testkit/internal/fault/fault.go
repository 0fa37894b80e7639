// Package fault is the catalogue of faults that the explorer injects.
//
// A [Fault] is a value: a name, a sentence, and a function that derives plans from a baseline. A [Plan] is one fault at one
// place of one run. Its hooks act on a [Run]. Each fault has a file of its own.
package fault

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/external"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// Fault is a kind of failure.
type Fault struct {
	// Name is the name in plans, reports and options.
	Name string
	// Doc describes the failure in one sentence.
	Doc string
	// Long means that a short exploration tries the fault only if its options name it or its group.
	Long bool
	// Plan returns the plans for a baseline, also those that are not worth a run.
	Plan func(in *Input) []Plan
}

// Input holds the data for the derivation of plans.
type Input struct {
	*baseline.Baseline

	// Steps are the names of the scenario's steps.
	Steps []string
	// Irreplaceable are objects that the operator cannot recreate with the same content.
	Irreplaceable []string
	// IsOldRevision reports whether a child is an old revision after a step, from 0. Nil means that none is.
	IsOldRevision func(step int, name string) bool
	// ExternallyManaged are objects, and fields of objects, that the operator does not manage after their creation.
	ExternallyManaged []string
}

// A Plan is one fault at one place of a run.
type Plan struct {
	// Name is unique and the same in each exploration.
	Name string
	// Fault is the name of the fault.
	Fault string
	// Summary is a sentence for the report.
	Summary string
	// Skip is why the plan is not worth a run, or "".
	Skip string
	// Weight is the number of writes that the fault can affect. Of the plans of a fault, a short exploration tries those with
	// the highest weight.
	Weight int
	// Required means that a short exploration tries the plan beside the first of its fault: up to three of each fault.
	Required bool
	// ShortGroup names a group of faults of which a short exploration tries one plan. "" means the fault itself.
	ShortGroup string
	// Step is the step, from 1, at which the fault is injected, if the run continues after that step like a run without a
	// fault. Plans with different steps can be combined. 0 means that the plan needs a run of its own.
	Step int

	// AlwaysApplies means that the run counts even if nothing is injected.
	AlwaysApplies bool
	// SkipCounts means that creations and deletions may differ from the baseline's.
	SkipCounts bool
	// KeepsObjects means that the fault changes and deletes no objects, although creations and deletions may differ: the
	// operator has no reason to generate a value again.
	KeepsObjects bool
	// MergesEvents means that the operator may learn of several changes at once, and then need not make what it would make
	// between them.
	MergesEvents bool
	// ExtraQuiet gives the operator a longer quiet period.
	ExtraQuiet bool
	// GracefulStop means that the operator is stopped gracefully at the end.
	GracefulStop bool
	// DeletesEarly means that the custom resources are deleted before the end of the scenario.
	DeletesEarly bool
	// LosesNode means that the fault may affect the pods of other runs: see [podplane.Plane].
	LosesNode bool
	// Replicas is the number of concurrent processes; 0 means 1. Several have leader election.
	Replicas int
	// NoWaitAfter is the step, from 1, after which the next one follows at once; 0 means none.
	NoWaitAfter int

	// Hooks, all optional. Before is called before a step, During right after it, and AfterIdle when the operator is idle
	// again. Steps count from 0. For Before and During, the deletion of the custom resources is one more step at the end.
	Before, During, AfterIdle func(r Run, step int)

	// Target is the request that OnRequest and OnResponse apply to. They have the contracts of the methods of [intercept.Hook].
	Target     string
	OnRequest  func(r Run, req *http.Request, c *intercept.Call) (*http.Response, error)
	OnResponse func(r Run, c *intercept.Call, resp *http.Response) (*http.Response, error)

	// Exchange is the request to an external service that OnExchange applies to, from a process of the operator.
	Exchange   string
	OnExchange func(r Run, process int, x *external.Exchange)

	// Triggers are candidates. A run has the first of each kind that the operator reacts to without the fault.
	Triggers []Trigger
	// BeforeTriggers is called right before the first of them. Optional.
	BeforeTriggers func(r Run)

	place int     // orders the plans of one group
	parts []*Plan // see Combine
}

// HasLeaderElection reports whether the operator runs with leader election.
func (p *Plan) HasLeaderElection() bool { return p.Replicas > 1 }

// Run is the run that a plan acts on.
type Run interface {
	History
	Fields
	Processes
	Steps
	Verdict
	Waits

	// Space returns the namespace, with the client of the user.
	Space() *space.Space
	// LogFault records that a fault is injected.
	LogFault(text string)
	// NoteChange records that another manager has annotated the object.
	NoteChange(uid types.UID)
	// PlaceForeign creates an object of another owner with the kind and the name of a child, and reports success. From then
	// on, the operator need not reach the states of the baseline, and must not change or delete the object.
	PlaceForeign(c baseline.Child) bool
}

// Verdict says whether the run counts.
type Verdict interface {
	// MarkUntried records why the fault cannot be injected. The run does not count then.
	MarkUntried(reason string)
	// Discard is MarkUntried for a fault that has changed something: later violations do not count.
	Discard(reason string)
	// IsUntried reports whether there is such a reason.
	IsUntried() bool
}

// History is what a run knows of the objects.
type History interface {
	// CurrentObjects returns the existing objects.
	CurrentObjects() []history.Change
	// Changes returns the history so far.
	Changes() []history.Change
	// Primaries returns the custom resources.
	Primaries() []history.Change
	// CreatedByUser returns the UIDs of objects that the scenario created.
	CreatedByUser() map[types.UID]bool
	// SentByUser returns what the user last wrote of an object, and whether the user applies it. It is nil if that is unknown.
	SentByUser(uid types.UID) (object map[string]any, applied bool)
	// WroteEvent reports whether the user caused a watch event: the event has the version of one of the user's writes, or the
	// user deleted the object.
	WroteEvent(f intercept.Frame) bool
	// IsPrimary reports whether the scenario creates objects of the kind.
	IsPrimary(kind intercept.GroupResource) bool
	// Child finds an object by its canonical name.
	Child(c baseline.Child) (history.Change, bool)
	// Pod finds the first pod in the place of one of the baseline.
	Pod(p baseline.Pod) (history.Change, bool)
	// CanonicalText returns a text with generated names and values replaced, as in names of children.
	CanonicalText(text string) string
}

// Fields are the fields that the operator set.
type Fields interface {
	// AddedFields returns the paths, and the canonical paths, of the fields that the operator added to an object of the
	// scenario.
	AddedFields(c baseline.Child) (paths [][]string, canonical []state.Field)
	// MetadataFields is AddedFields for the labels and annotations of an object of the operator.
	MetadataFields(c baseline.Child) (paths [][]string, canonical []state.Field)
}

// Processes are the processes of the operator.
type Processes interface {
	// Operator returns the interceptor of their requests.
	Operator() *intercept.Interceptor
	// Start starts a process of the operator.
	Start() bool
	// Crash kills a process from within one of its requests, and starts the next one.
	Crash(process int)
	// KillAll kills all processes.
	KillAll()
	// AwaitStart waits until the last process watches what the first one watched, and is idle: for the quiet period, or
	// shorter if done returns true.
	AwaitStart(done func() bool)
	// Running returns the number of running processes.
	Running() int
}

// Steps controls how a run continues.
type Steps interface {
	// WaitAfterStep revokes Plan.NoWaitAfter.
	WaitAfterStep()
	// IsStepBlocked reports whether the current step waits for the operator.
	IsStepBlocked() bool
	// WaitIdle waits until the operator is idle with the events that it has received.
	WaitIdle()
	// Converge waits until the state equals the baseline's, and reports a violation otherwise. It returns whether the state
	// does.
	Converge(step int) bool
	// AwaitTrueStatus waits until the operator is idle and the status of the custom resources is true, and reports a violation
	// otherwise. It returns whether the scenario continues.
	AwaitTrueStatus(step int) bool
	// TearDown deletes the custom resources and waits for the cleanup.
	TearDown()
	// Terminate rejects creations from now on, as in a terminating namespace.
	Terminate()
}

// Waits are waits for the history.
type Waits interface {
	// Await waits until the history satisfies done, but no longer than the timeout of a step.
	Await(done func() bool)
	// AwaitFor waits until the history satisfies done, but no longer than the limit, and reports whether it does.
	AwaitFor(limit time.Duration, done func() bool) bool
	// AwaitReaction waits until the operator writes after the user has deleted an object, and reports whether it did in time.
	// A write that refers to the UID of that object, such as that of a child, does not count: the operator has not noticed
	// the deletion.
	AwaitReaction(deleted types.UID) bool
	// AwaitWrites waits until the history shows every write.
	AwaitWrites()
}

// catalogue lists the faults in groups. Within a group, plans are ordered by place first.
var catalogue = [][]Fault{
	{crashBefore, crashAfter, crashDeleted},
	{error500, error503, error429, lostResponse, conflict},
	{lag, missed},
	{watchClosed, watchBroken, watchExpired},
	{driftDeleted, driftUnseen, driftEdited, driftInput, driftMetadata},
	{deleted, namespaceDeleted, failover, down},
	{failoverPaused},
	{foreignCreated, foreignEdited, foreignDeleted},
	{driftAll, podFailed, recreated, recreatedLater, recreatedDown},
	{lagLong, lagDeleted},
	{outageRefused, outageSlow, outageRestarted},
	{pairErrors, pairCrashWrite, pairCrashRead},
	{externalRefused, externalSlow, externalLost},
	{webhookRefused, webhookSlow},
	{applicationKilled, applicationOOM, applicationPaused, applicationEvicted, applicationDiskFull},
	{applicationUnreachable, applicationLost, applicationPartitioned},
}

// names is the order of the faults in messages.
var names = []string{
	"crash-before", "crash-after", "crash-deleted", "error-500", "error-503", "error-429", "lost-answer", "conflict", "lag",
	"missed", "down", "watch-closed", "watch-broken", "watch-expired", "drift-deleted", "drift-edited", "drift-unseen",
	"drift-input", "drift-metadata", "deleted", "namespace-deleted", "failover", "failover-paused",
	"foreign-created", "foreign-edited", "foreign-deleted", "drift-all", "pod-failed", "recreated", "recreated-later",
	"recreated-down", "lag-long", "lag-deleted",
	"outage-refused", "outage-slow", "outage-restarted", "pair-errors", "pair-crash-write", "pair-crash-read",
	"external-refused", "external-slow", "external-lost", "webhook-refused", "webhook-slow",
	"application-killed", "application-oom", "application-paused", "application-evicted", "application-disk-full",
	"application-unreachable", "application-lost", "application-partitioned",
}

// All returns the catalogue.
func All() []Fault { return slices.Concat(catalogue...) }

// Names returns the names of all faults. The part before a hyphen is a group.
func Names() []string { return slices.Clone(names) }

// Plans returns the plans of all faults, also those that are not worth a run.
func Plans(in *Input) []Plan {
	var all []Plan
	for _, group := range catalogue {
		var plans []Plan
		for _, f := range group {
			plans = append(plans, f.Plan(in)...)
		}
		slices.SortStableFunc(plans, func(a, b Plan) int { return a.place - b.place })
		all = append(all, plans...)
	}
	return all
}

// Selects reports whether an exploration with these names of faults or groups tries a fault. Nil selects all faults.
func Selects(names []string, fault string) bool {
	return names == nil || slices.ContainsFunc(names, func(name string) bool { return Includes(name, fault) })
}

// IsShort reports whether a short exploration with these names of faults or groups tries a fault that it selects.
func IsShort(names []string, fault string) bool {
	return names != nil || !slices.ContainsFunc(All(), func(f Fault) bool { return f.Name == fault && f.Long })
}

// Is reports whether name is a fault or a group of faults.
func Is(name string) bool {
	return slices.ContainsFunc(names, func(f string) bool { return Includes(name, f) })
}

// Includes reports whether name is the fault, or a group that contains it.
func Includes(name, fault string) bool { return name == fault || strings.HasPrefix(fault, name+"-") }

// maxRepeats is the number of identical requests about one object at which faults are injected.
const maxRepeats = 3

// skipped returns a plan that is not worth a run.
func skipped(fault, what, reason string, place int) Plan {
	return Plan{Name: fault + "/" + what, Fault: fault, Skip: reason, place: place}
}

// slug turns a step's name into a part of a plan's name.
func slug(name string) string { return strings.Join(strings.Fields(name), "-") }
