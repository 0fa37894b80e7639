// Package explore runs an operator through a scenario again and again, each time with another fault, and says what it did
// wrong. It first learns from runs without a fault what should come out.
//
// It does not know in which language the operator is written or where it runs: a [Subject] starts and kills it, and all its
// requests go over a wire (package wire). What the API server stored is seen by watches of its own (package history).
package explore

import (
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

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// Subject is an operator that can be started any number of times.
type Subject interface {
	// Start starts an incarnation that works in k's namespace and returns when it is under way. All its requests must go
	// through transport.
	Start(k *testkit.K, how Start) (Process, error)
}

// Start says how an incarnation is to be started.
type Start struct {
	// Number counts the incarnations of a run from 1.
	Number int
	// Transport is to be put between the operator and the API server.
	Transport func(http.RoundTripper) http.RoundTripper
	// Elect asks for leader election, with short times.
	Elect bool
}

// ErrNoElection is returned by Start if a subject cannot be told to elect a leader.
var ErrNoElection = errors.New("leader election cannot be asked for")

// Process is one incarnation of an operator.
type Process interface {
	// Kill ends it as a SIGKILL would.
	Kill()
	// Stop ends it in order.
	Stop()
	// Done is closed when it has ended, whoever ended it.
	Done() <-chan struct{}
}

// Step is one step of a scenario.
type Step struct {
	Name string
	Do   func(k *testkit.K)
}

// Options say what is explored.
type Options struct {
	// Name names the operator.
	Name    string
	Subject Subject
	Steps   []Step
	// Setup runs before the operator starts, for what the scenario builds on. Optional.
	Setup func(k *testkit.K)
	// Await runs after each step, when the operator can work on it, and returns when what a user would wait for is there.
	// Steps count from 0. Optional: what came of a step is compared anyway.
	Await func(k *testkit.K, step int)
	// Faults are the names of the kinds of faults to try; nil means all.
	Faults []string
	// Only restricts the exploration to plans with these names. Nil means all.
	Only func(name string) bool
	// Without are the names of oracles that are switched off.
	Without []string
	// Keeps are resources, such as "persistentvolumeclaims", that may outlive the custom resource.
	Keeps []string
	// Leaves are objects, such as "secrets/web", and fields, such as "deployments.apps/web.spec.replicas", that the operator
	// sets when it makes the object and leaves to others from then on.
	Leaves []string
	// Unique are objects, such as "secrets/web", that the operator cannot make again as they were: nobody deletes them.
	Unique []string
	// Invariant are checked on each state of the namespace.
	Never []Invariant
	// WaitIdle is how long an operator must not write to count as being at rest while the fault-free run is learned. Zero
	// means 1 s.
	Rest time.Duration
	// Patience is how long an operator may take to get where the fault-free run got. Zero means 30 s.
	Patience time.Duration
	// Guard is for how long nothing may happen until what is there counts as what came of a step. Zero means 30 ms, and 120
	// after a fault or the last step; an interpreter takes longer to see what is new.
	Guard time.Duration
	// Parallel is how many runs are made at a time. Zero means three for each processor: they wait more than they compute.
	Parallel int
	// StopAtFailure ends the exploration with the first run that fails.
	StopAtFailure bool
	// Seed orders the runs. The verdict does not depend on it, unless Most leaves plans out.
	Seed int64
	// Most is how many plans are tried, the first in the order of the seed. Zero means all.
	Most int
	// Replay is the command that runs one plan again, for the report; it is given the plan's name.
	Replay func(plan string) string
	// Progress is told of each run as it ends, from one goroutine at a time. Optional.
	Progress func(done, total int, run report.Run)
}

// Invariant is a state that must not be.
type Invariant struct {
	Name string
	// Holds returns what is wrong with these objects, or "". They have the Go types that the client's scheme knows.
	Holds func(objects []client.Object) string
}

const (
	defaultQuietPeriod = time.Second
	defaultTimeout     = 30 * time.Second
	// runsPerProcessor is how many runs are made at a time for each processor.
	runsPerProcessor = 3
)

// Explorer explores one operator. Learn comes first; then Try may be called from several goroutines.
type Explorer struct {
	Options

	recorder  *history.Recorder
	baseline  *baseline
	generated state.GeneratedNames // set while the fault-free runs are made
}

// New returns an explorer on the API server of cfg, which needs all rights. Close it.
func New(ctx context.Context, cfg *rest.Config, o Options) (*Explorer, error) {
	x := &Explorer{Options: o}
	if x.Rest == 0 {
		x.Rest = defaultQuietPeriod
	}
	if x.Patience == 0 {
		x.Patience = defaultTimeout
	}
	if x.Parallel == 0 {
		x.Parallel = runsPerProcessor * runtime.GOMAXPROCS(0)
	}
	if x.Replay == nil {
		x.Replay = func(string) string { return "" }
	}
	var err error
	x.recorder, err = history.Acquire(ctx, cfg)
	return x, err
}

// Close ends what the explorer has started.
func (x *Explorer) Close() { x.recorder.Release() }

// Run learns, if that was not done before, tries every plan, and reports. Errors are those of the machinery; what the
// operator did wrong is in the report, which is complete up to an error.
func (x *Explorer) Run(ctx context.Context) (*report.Report, error) {
	began := time.Now()
	r := &report.Report{Operator: x.Name, Seed: x.Seed, Started: began}
	defer func() { r.Duration = time.Since(began) }()
	for _, s := range x.Steps {
		r.Steps = append(r.Steps, s.Name)
	}
	if x.baseline == nil {
		runs, err := x.Learn(ctx)
		r.Runs = append(r.Runs, runs...)
		if err != nil || x.baseline == nil {
			return r, err
		}
	}
	r.Notes = append(r.Notes, x.Notes()...)
	plans, skipped := x.Plans()
	r.Skipped = skipped
	if x.Most > 0 {
		plans = plans[:min(x.Most, len(plans))]
	}
	runs, err := x.tryAll(ctx, plans)
	r.Runs = append(r.Runs, runs...)
	return r, err
}

// tryAll tries some plans at a time and returns the runs in the order of the plans.
func (x *Explorer) tryAll(ctx context.Context, plans []Plan) ([]report.Run, error) {
	var (
		runs  = make([]report.Run, len(plans))
		group errgroup.Group
		mu    sync.Mutex
		done  int
		stop  bool
	)
	group.SetLimit(x.Parallel)
	for i, p := range plans {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("trying %s: %w", p.Name(), err)
			}
			mu.Lock()
			over := stop
			mu.Unlock()
			if over {
				return nil
			}
			run, err := x.Try(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			stop = stop || x.StopAtFailure && run.Outcome == report.Failed
			runs[i], done = run, done+1
			if err == nil && x.Progress != nil {
				x.Progress(done, len(plans), run)
			}
			return err
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(runs, func(r report.Run) bool { return r.Name == "" }), err //nolint:wrapcheck // Try says which
}

// Try makes the run of one plan. A fault that did not come about is given a second chance.
func (x *Explorer) Try(ctx context.Context, p Plan) (report.Run, error) {
	for chance := 1; ; chance++ {
		again := *p.plan
		r := x.newRun(ctx, &again, x.baseline)
		r.execute()
		out := r.report()
		if err := ctx.Err(); err != nil {
			return report.Run{}, fmt.Errorf("trying %s: %w", p.Name(), err) // what it shows is that it was ended
		}
		if r.infraErr != nil {
			return out, fmt.Errorf("trying %s: %w", p.Name(), r.infraErr)
		}
		if out.Outcome != report.Untried || chance == 2 {
			return out, nil
		}
	}
}

// Plan is one thing to try.
type Plan struct{ plan *plan }

// Name is unique among the plans of an operator and a scenario, and the same each time.
func (p Plan) Name() string { return p.plan.name }

func (x *Explorer) oracleEnabled(oracle string) bool { return !slices.Contains(x.Without, oracle) }

func (x *Explorer) wantsFault(fault string) bool {
	return x.Faults == nil || slices.ContainsFunc(x.Faults, func(f string) bool { return includesFault(f, fault) })
}
