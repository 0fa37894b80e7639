// Package explore runs an operator through a scenario many times, each time with another fault, and reports violations.
// Baseline runs without a fault establish the expected states first.
//
// The package does not depend on the language of the operator or on its location. A [Subject] starts and kills it, and
// all its requests pass an interceptor (package intercept). The package observes the stored objects by its own watches
// (package history).
package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/baseline"
	"github.com/homeostat-dev/homeostat/testkit/internal/fault"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/space"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// Subject is an operator that can be started any number of times.
type Subject interface {
	// Start starts a process that works in the namespace of s, and returns when the process is running. All its requests must
	// pass transport.
	Start(s *space.Space, how Start) (Process, error)
}

// Start holds the parameters of one process.
type Start struct {
	// Number counts the processes of a run from 1.
	Number int
	// Transport wraps the transport between the operator and the API server.
	Transport func(http.RoundTripper) http.RoundTripper
	// LeaderElection requests leader election with short periods.
	LeaderElection bool
}

// ErrNoElection is returned by Start if the subject does not support leader election on request.
var ErrNoElection = errors.New("testkit cannot switch on the leader election of a program")

// Process is one process of an operator.
type Process interface {
	// Kill ends the process as SIGKILL does.
	Kill()
	// Stop ends the process gracefully.
	Stop()
	// Done returns a channel that is closed when the process has ended for any reason.
	Done() <-chan struct{}
}

// Step is one step of a scenario.
type Step struct {
	Name string
	// Do performs the step. It may report failures with Space.Fail, or return one.
	Do func(s *space.Space) error
}

// Options configures an exploration.
type Options struct {
	// Name is the name of the operator in the report.
	Name    string
	Subject Subject
	// Scheme has the Go types of the objects that invariants receive. Nil means the built-in ones.
	Scheme *runtime.Scheme
	Steps  []Step
	// Opener creates the namespace of each run.
	Opener space.Opener
	// Setup runs before the operator starts, for prerequisites of the scenario. Optional.
	Setup func(s *space.Space) error
	// AfterRun runs at the end of each run, after the deletion of the custom resources and before the processes stop. Optional.
	AfterRun func(s *space.Space) error
	// Checks lists rules that must hold whenever the operator is idle.
	Checks []Check
	// Await runs after each step, when the operator can reconcile it, and returns when a user would consider the step done.
	// Steps count from 0. Optional: the state after each step is compared in any case.
	Await func(s *space.Space, step int) error
	// Faults names the kinds of faults to try; nil means all.
	Faults []string
	// SelectPlan restricts the exploration to plans with these names. Nil means all.
	SelectPlan func(name string) bool
	Exceptions
	// Invariants lists invariants. They are checked on each state of the namespace.
	Invariants []Invariant
	// QuietPeriod is the time without a write after which an operator counts as idle in a baseline run. Zero means 1 s.
	QuietPeriod time.Duration
	// Timeout is the time within which an operator must reach the state of the baseline. Zero means 30 s, or three times the
	// time that the operator takes to repeat a failed write, if that is longer. A run ends earlier if the operator is known to
	// have nothing to do.
	Timeout time.Duration
	// StepQuietPeriod is the time without activity after which the state counts as the outcome of a step. Zero means 30 ms,
	// and 120 ms after a fault or the last step. An interpreter needs more time to react.
	StepQuietPeriod time.Duration
	// Parallel is the number of concurrent runs. Zero means three for each processor: runs wait more than they compute.
	Parallel int
	// HideShared hides from the operator the namespaces that belong to no run, such as default, where it lists or watches all
	// namespaces.
	HideShared bool
	// StopAtFailure ends the exploration with the first failed run.
	StopAtFailure bool
	// Seed determines the order of the runs. The verdict does not depend on it, unless Most omits plans.
	Seed int64
	// Short tries the plans of a short exploration alone.
	Short bool
	Selection
	// Timelines keeps the timelines of passed runs as well.
	Timelines bool
	// Replay returns the command that repeats one plan, for the report.
	Replay func(plan string) string
	// Progress is called after each run, by one goroutine at a time. Optional.
	Progress func(done, total int, run report.Run)
	// Learning is called after each baseline run, by one goroutine at a time, and Planned before the first plan is tried.
	// Optional.
	Learning func(run report.Run)
	Planned  func(plans int)
}

// Exceptions lists the intended deviations of an operator from the rules for all operators.
type Exceptions struct {
	// DisabledOracles names the oracles that are switched off.
	DisabledOracles []string
	// AllowResidue lists resources, such as "persistentvolumeclaims", that may outlive the custom resource.
	AllowResidue []string
	// ExternallyManaged lists objects, such as "secrets/web", and fields, such as "deployments.apps/web.spec.replicas", that
	// the operator sets on creation and does not manage afterwards.
	ExternallyManaged []string
	// Irreplaceable lists objects, such as "secrets/web", that the operator cannot recreate with the same content. No fault
	// deletes them.
	Irreplaceable []string
}

// Invariant is a rule that every state of the namespace must satisfy.
type Invariant struct {
	Name string
	// Holds returns a description of the violation, or "". The objects have the Go types that the client's scheme knows.
	Holds func(objects []client.Object) string
	// HoldsIn is used instead of Holds, if it is set. It receives the first namespace of the run, and objects without types.
	HoldsIn func(namespace string, objects []*unstructured.Unstructured) string
}

const (
	defaultQuietPeriod = time.Second
	defaultTimeout     = 30 * time.Second
	// runsPerProcessor is the number of concurrent runs for each processor.
	runsPerProcessor = 3
)

// Explorer explores one operator. RunBaseline must be called first. Then, if there is a baseline, RunPlan may be called
// concurrently.
type Explorer struct {
	Options

	recorder  *history.Recorder
	others    dynamic.Interface // the client of other owners: its requests are neither the user's nor the operator's
	baseline  *baseline.Baseline
	generated state.GeneratedNames // set by the baseline runs
	began     time.Time            // times near it are not compared
	counters  *counters            // shared with sessions
	repeated  *repetitions
	faultless map[string]bool // the causes of violations in the baseline runs

	nodes *nodeLock // of all explorations on this API server

	noBaseline string // why there is no baseline after the baseline runs, or ""

	persistent    *differences
	triggers      *triggers
	measuresRetry bool          // no timeout was set
	retry         time.Duration // the time after which a failed write was repeated; 0 means that it is unknown
	longestStep   time.Duration // the longest time until the last change after a step of a baseline run

	fresh []*freshReference // by step; set if the baseline differs from a fresh operator
	// freshStates are the states of fresh operators, by step; nil where there is none.
	freshStates []state.State
	freshNotes  []string // about the comparison with a fresh operator
}

// New returns an explorer on the API server of cfg, which needs all permissions. The caller must close it.
func New(ctx context.Context, cfg *rest.Config, o Options) (*Explorer, error) {
	x := &Explorer{
		Options: o, persistent: &differences{}, triggers: &triggers{}, began: time.Now(), counters: &counters{},
		nodes: nodeLockOf(cfg.Host),
	}
	x.repeated = &repetitions{causes: map[string]bool{}}
	if x.QuietPeriod == 0 {
		x.QuietPeriod = defaultQuietPeriod
	}
	if x.Timeout == 0 {
		x.Timeout = defaultTimeout
		x.measuresRetry = true
	}
	if x.Parallel == 0 {
		x.Parallel = runsPerProcessor * goruntime.GOMAXPROCS(0)
	}
	if x.Replay == nil {
		x.Replay = func(string) string { return "" }
	}
	var err error
	if x.others, err = newForeignClient(cfg); err != nil {
		return x, err
	}
	if x.recorder, err = history.Acquire(ctx, cfg, x.Scheme, true); err != nil {
		return x, err
	}
	return x, nil
}

// Close ends the explorer's watches.
func (x *Explorer) Close() { x.recorder.Release() }

// Run performs the baseline runs, unless RunBaseline was called before, tries every plan and returns the report. Errors are
// those of the test infrastructure. Mistakes of the operator are in the report, which is complete up to an error.
func (x *Explorer) Run(ctx context.Context) (*report.Report, error) {
	began := time.Now()
	r := &report.Report{Operator: x.Name, Seed: x.Seed, Started: began}
	defer func() { r.Duration = time.Since(began) }()
	for _, s := range x.Steps {
		r.Steps = append(r.Steps, s.Name)
	}
	if x.baseline == nil {
		runs, err := x.RunBaseline(ctx)
		r.Runs = append(r.Runs, runs...)
		if err != nil {
			return r, err
		}
	}
	r.Notes = append(r.Notes, x.Notes()...)
	switch {
	case x.StopAtFailure && len(r.Failures()) > 0:
		r.Notes = append(r.Notes, stoppedEarly)
		return r, nil
	case x.baseline == nil:
		return r, nil
	}
	plans, skipped := x.Plans()
	r.Skipped = skipped
	if x.Short {
		plans = x.ShortPlans(plans)
	}
	plans, others := x.selected(plans)
	r.Skipped = append(r.Skipped, others...)
	if x.Planned != nil {
		x.Planned(len(plans))
	}
	groups := make([][]Plan, 0, len(plans))
	for _, p := range plans {
		groups = append(groups, []Plan{p})
	}
	if x.Short {
		groups = Group(plans)
	}
	runs, late, err := x.tryAll(ctx, groups)
	r.Runs = append(r.Runs, runs...)
	r.Skipped = append(r.Skipped, late...)
	r.Notes = append(r.Notes, x.FaultNotes()...)
	return r, err
}

// stoppedEarly is a note about an exploration that ended with the baseline runs.
const stoppedEarly = "no plan was tried, because the exploration was to end with the first finding: " +
	"without --stop-at-first it goes on"

// tryAll tries x.Parallel groups at a time. It returns the runs in the order of the plans, and the plans that were not
// started. After an error of the test infrastructure it starts no further one.
func (x *Explorer) tryAll(ctx context.Context, groups [][]Plan) ([]report.Run, []report.Skipped, error) {
	var (
		runs        = make([][]report.Run, len(groups))
		parallel    errgroup.Group
		mu          sync.Mutex
		total, done int
		broken      bool                                                                             // a run could not be made
		stop        = slices.ContainsFunc(x.fresh, func(f *freshReference) bool { return f != nil }) // a run has failed
		began       = time.Now()
		reason      string // why plans were not started
		late        []string
	)
	for _, group := range groups {
		total += len(group)
	}
	parallel.SetLimit(x.Parallel)
	for i, group := range groups {
		parallel.Go(func() error {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("trying %s: %w", group[0].Name(), err)
			}
			mu.Lock()
			why := x.whyOver(began, stop, broken)
			if why != "" {
				reason = why
				late = append(late, names(group)...)
			}
			mu.Unlock()
			if why != "" {
				return nil
			}
			of, err := x.RunGroup(ctx, group)
			mu.Lock()
			defer mu.Unlock()
			stop = stop || slices.ContainsFunc(of, func(r report.Run) bool { return r.Outcome == report.Failed })
			runs[i] = of
			if err != nil {
				broken = true
				reason = impossible
				late = append(late, names(group[min(len(of), len(group)):])...)
			}
			for _, run := range of {
				done = min(done+1, total) // there is one run more if only the combination of faults failed
				if err == nil && x.Progress != nil {
					x.Progress(done, total, run)
				}
			}
			return err
		})
	}
	err := parallel.Wait()
	return slices.Concat(runs...), notTried(nil, reason, late), err
}

// RunGroup tries the plans of a group and returns a run for each. It injects all faults in one run first. If that run has no
// violation, it is the run of each plan whose fault was injected. The other plans are tried alone. If the run has violations
// and no plan alone has one, the combined run is returned as well.
func (x *Explorer) RunGroup(ctx context.Context, group []Plan) ([]report.Run, error) {
	if len(group) == 1 {
		return x.runEach(ctx, group)
	}
	plans := make([]*fault.Plan, 0, len(group))
	for _, p := range group {
		plans = append(plans, p.plan)
	}
	r, err := x.newFaultRun(ctx, fault.Combine(plans))
	if err != nil {
		return nil, err
	}
	r.execute()
	if err := cmp.Or(ctx.Err(), r.infraError()); err != nil {
		return nil, fmt.Errorf("trying %s: %w", r.plan.Name, err)
	}
	combined := r.report()
	if combined.Outcome == report.Failed {
		runs, err := x.runEach(ctx, group)
		if err == nil && !slices.ContainsFunc(runs, func(r report.Run) bool { return r.Outcome == report.Failed }) {
			runs = append(runs, combined)
		}
		return runs, err
	}
	var runs []report.Run
	for _, p := range group {
		run := r.reportPart(p.plan)
		if run.Outcome == report.Untried {
			alone, err := x.RunPlan(ctx, p)
			if err != nil {
				return runs, err
			}
			run = alone
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// runEach tries each plan in a run of its own.
func (x *Explorer) runEach(ctx context.Context, plans []Plan) ([]report.Run, error) {
	var runs []report.Run
	for _, p := range plans {
		run, err := x.RunPlan(ctx, p)
		if err != nil {
			return runs, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}
