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
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
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
var ErrNoElection = errors.New("leader election cannot be asked for")

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
	Steps   []Step
	// Opener creates the namespace of each run.
	Opener space.Opener
	// Setup runs before the operator starts, for prerequisites of the scenario. Optional.
	Setup func(s *space.Space) error
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
	// Timeout is the time within which an operator must reach the state of the baseline. Zero means 30 s.
	Timeout time.Duration
	// StepQuietPeriod is the time without activity after which the state counts as the outcome of a step. Zero means 30 ms,
	// and 120 ms after a fault or the last step. An interpreter needs more time to react.
	StepQuietPeriod time.Duration
	// Parallel is the number of concurrent runs. Zero means three for each processor: runs wait more than they compute.
	Parallel int
	// StopAtFailure ends the exploration with the first failed run.
	StopAtFailure bool
	// Seed determines the order of the runs. The verdict does not depend on it, unless Most omits plans.
	Seed int64
	// Short tries the plans of a short exploration alone.
	Short bool
	// MaxPlans is the maximum number of plans, selected by Sample. Zero means all.
	MaxPlans int
	// Replay returns the command that repeats one plan, for the report.
	Replay func(plan string) string
	// Progress is called after each run, by one goroutine at a time. Optional.
	Progress func(done, total int, run report.Run)
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
}

const (
	defaultQuietPeriod = time.Second
	defaultTimeout     = 30 * time.Second
	// runsPerProcessor is the number of concurrent runs for each processor.
	runsPerProcessor = 3
)

// Explorer explores one operator. RunBaseline must be called first. Then RunPlan may be called concurrently.
type Explorer struct {
	Options

	recorder  *history.Recorder
	baseline  *baseline.Baseline
	generated state.GeneratedNames // set by the baseline runs
}

// New returns an explorer on the API server of cfg, which needs all permissions. The caller must close it.
func New(ctx context.Context, cfg *rest.Config, o Options) (*Explorer, error) {
	x := &Explorer{Options: o}
	if x.QuietPeriod == 0 {
		x.QuietPeriod = defaultQuietPeriod
	}
	if x.Timeout == 0 {
		x.Timeout = defaultTimeout
	}
	if x.Parallel == 0 {
		x.Parallel = runsPerProcessor * runtime.GOMAXPROCS(0)
	}
	if x.Replay == nil {
		x.Replay = func(string) string { return "" }
	}
	var err error
	if x.recorder, err = history.Acquire(ctx, cfg); err != nil {
		return x, err
	}
	if err := x.recorder.WatchClusterScoped(ctx); err != nil {
		x.Close()
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
		if err != nil || x.baseline == nil {
			return r, err
		}
	}
	r.Notes = append(r.Notes, x.Notes()...)
	plans, skipped := x.Plans()
	r.Skipped = skipped
	if x.Short {
		plans = Short(plans)
	}
	if x.MaxPlans > 0 {
		plans = SelectPlans(plans, x.MaxPlans)
	}
	groups := make([][]Plan, 0, len(plans))
	for _, p := range plans {
		groups = append(groups, []Plan{p})
	}
	if x.Short {
		groups = Group(plans)
	}
	runs, err := x.tryAll(ctx, groups)
	r.Runs = append(r.Runs, runs...)
	return r, err
}

// tryAll tries x.Parallel groups at a time and returns the runs in the order of the plans.
func (x *Explorer) tryAll(ctx context.Context, groups [][]Plan) ([]report.Run, error) {
	var (
		runs        = make([][]report.Run, len(groups))
		parallel    errgroup.Group
		mu          sync.Mutex
		total, done int
		stop        bool
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
			over := stop
			mu.Unlock()
			if over {
				return nil
			}
			of, err := x.RunGroup(ctx, group)
			mu.Lock()
			defer mu.Unlock()
			stop = stop || x.StopAtFailure && slices.ContainsFunc(of, func(r report.Run) bool { return r.Outcome == report.Failed })
			runs[i] = of
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
	return slices.Concat(runs...), err
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
	r := x.newRun(ctx, fault.Combine(plans), x.baseline)
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

// RunPlan performs the run of one plan. A fault that could not be injected is tried a second time.
func (x *Explorer) RunPlan(ctx context.Context, p Plan) (report.Run, error) {
	for chance := 1; ; chance++ {
		r := x.newRun(ctx, p.plan, x.baseline)
		r.execute()
		out := r.report()
		if err := ctx.Err(); err != nil {
			return report.Run{}, fmt.Errorf("trying %s: %w", p.Name(), err) // the run was interrupted, so its result means nothing
		}
		if r.infraError() != nil {
			return out, fmt.Errorf("trying %s: %w", p.Name(), r.infraError())
		}
		if out.Outcome != report.Untried || chance == 2 {
			return out, nil
		}
	}
}

func (x *Explorer) oracleEnabled(oracle string) bool {
	return !slices.Contains(x.DisabledOracles, oracle)
}
