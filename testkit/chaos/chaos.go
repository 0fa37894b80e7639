// Package chaos runs an operator through a scenario once for everything that can go wrong, and says what it did wrong.
//
//	func TestEverythingThatCanGoWrong(t *testing.T) {
//		chaos.Sweep(t, database.Operator, chaos.Scenario{
//			{"create", func(k *testkit.K) { k.Apply(sample(1)) }},
//			{"scale up", func(k *testkit.K) { k.Apply(sample(3)) }},
//		}, chaos.All)
//	}
//
// Each step is followed by a wait until the operator is at rest. Three runs without a fault teach what should come out and
// what differs by itself; then there is one run, a subtest, for each fault at each moment where it can matter. A run passes
// if every step ends as it did without the fault and nothing that holds for every operator was broken: see [Oracles].
//
// The operator runs in this process. What is killed is its manager, from which no request leaves any more; what it keeps in
// global variables survives, as it would not in a real process. For operators in other languages, and for real kills, there
// is the command testkit explore.
package chaos

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/seed"
)

// Step is one step of a scenario: something that a user does. It need not wait for the outcome.
type Step = explore.Step

// Scenario is what happens, in order. Names of steps must differ.
type Scenario []Step

// Faults are kinds of faults. A kind stands for all whose names begin with it: "crash" for crash-before and crash-after.
type Faults []string

// All is every kind of fault.
var All = Faults(nil)

// The kinds of faults.
const (
	Crash        = "crash"         // killed right before or after a write; or after, and its object deleted while it is down
	Error        = "error"         // a request is answered with 500, 503 or 429
	LostAnswer   = "lost-answer"   // a write is carried out and its answer is lost
	Conflict     = "conflict"      // somebody else changes the object right before a write
	Lag          = "lag"           // news of a kind arrive late
	Down         = "down"          // does not run while a step happens
	Missed       = "missed"        // a state between two steps is never seen
	WatchClosed  = "watch-closed"  // watches end without a word
	WatchBroken  = "watch-broken"  // the connections of watches break
	WatchExpired = "watch-expired" // watches end with 410 Gone
	Drift        = "drift"         // somebody deletes or changes a child
	Deleted      = "deleted"       // the custom resource is deleted while the operator is busy
	Failover     = "failover"      // the leader of two replicas is killed

	NamespaceDeleted = "namespace-deleted" // everything is deleted at once, and nothing can be created any more
)

// Oracles are the names of what is held against every operator, as reports use them and [Without] takes them.
func Oracles() []string { return explore.Oracles() }

// An Option changes how an operator is explored.
type Option func(*config)

type config struct {
	explore.Options

	start []testkit.StartOption
}

// Without switches oracles off. The reason is for the reader of the test.
func Without(reason string, oracles ...string) Option {
	return func(c *config) {
		_ = reason
		c.Without = append(c.Without, oracles...)
	}
}

// AllowResidue names resources, such as "persistentvolumeclaims", that may stay when the custom resource has gone.
func AllowResidue(resources ...string) Option {
	return func(c *config) { c.Keeps = append(c.Keeps, resources...) }
}

// ExternallyManaged names what the operator sets when it makes an object and leaves to others from then on: objects, such as
// "secrets/web", and fields, such as "deployments.apps/web.spec.replicas". Nobody changes that by hand then.
func ExternallyManaged(places ...string) Option {
	return func(c *config) { c.Leaves = append(c.Leaves, places...) }
}

// Irreplaceable names objects, such as "secrets/web", that the operator cannot make again as they were, because what they hold is
// known to nobody else. Nobody deletes them by hand then.
func Irreplaceable(objects ...string) Option {
	return func(c *config) { c.Unique = append(c.Unique, objects...) }
}

// Invariant checks each state that the run's namespace went through. The function returns what is wrong with the objects that
// exist, or "". They have the Go types that testkit.Env's scheme knows, such as *corev1.Pod; others are unstructured.
func Invariant(name string, holds func(objects []client.Object) string) Option {
	return func(c *config) { c.Never = append(c.Never, explore.Invariant{Name: name, Holds: holds}) }
}

// Before runs once in each run before the operator starts, for what the scenario builds on.
func Before(setup func(k *testkit.K)) Option { return func(c *config) { c.Setup = setup } }

// QuietPeriod is how long the operator must not write to count as being at rest in the runs without a fault. The default is 1 s. An
// operator with a clock of its own is at rest between two strokes: lower it if they come faster. One that polls is given
// five times that to look again after a change: raise it if it looks less often.
func QuietPeriod(d time.Duration) Option { return func(c *config) { c.Rest = d } }

// Timeout is how long the operator may take to get where it got without the fault. The default is 30 s. Runs that pass do
// not wait for it.
func Timeout(d time.Duration) Option { return func(c *config) { c.Patience = d } }

// StartWith are options with which each incarnation is started.
func StartWith(opts ...testkit.StartOption) Option {
	return func(c *config) { c.start = append(c.start, opts...) }
}

// SetupFunc makes an operator of a function that registers controllers with a manager.
func Setup(setup testkit.SetupFunc) testkit.Runnable { return setupOperator(setup) }

type setupOperator testkit.SetupFunc

// SetupWithManager implements testkit.Runnable. The manager's cache sees the test's namespace alone.
func (p setupOperator) SetupWithManager(mgr manager.Manager, _ ...sdk.SetupOption) error {
	return p(mgr)
}

// shortPlans is how many plans are tried with -short.
const shortPlans = 20

// Sweep tries every fault. Each run is a subtest that bears the name of its plan, so that one can be run alone with -run.
// With -short it tries 20 plans, which the seed picks; -run that names a plan is obeyed nevertheless.
func Sweep(t *testing.T, op testkit.Runnable, s Scenario, faults Faults, opts ...Option) {
	t.Helper()
	c := &config{Options: explore.Options{Name: t.Name(), Steps: s, Faults: faults, Seed: seed.Or(0)}}
	for _, opt := range opts {
		opt(c)
	}
	if err := validate(s, c); err != nil {
		t.Fatal(err)
	}
	c.Subject = explore.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
		return k.Run(op, slices.Concat(c.start, opts)...)
	})
	c.Replay = func(plan string) string { return replay(t.Name(), plan) }
	_, only, _ := strings.Cut(flag.Lookup("test.run").Value.String(), "/")
	k := testkit.New(t) // a connection with all rights; each run has a namespace of its own
	x, err := explore.New(t.Context(), rest.CopyConfig(k.Config), c.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	began := time.Now()
	runs, err := x.Learn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		reportRun(t, run)
	}
	if t.Failed() {
		return
	}
	plans, skipped := x.Plans()
	if few := plans[:min(len(plans), shortPlans)]; testing.Short() && only == "" {
		t.Logf("%d of %d plans are tried, because of -short", len(few), len(plans))
		plans = few
	}
	t.Logf("%d plans to try, in the order of seed %d; learned in %v",
		len(plans), c.Seed, time.Since(began).Round(time.Millisecond))
	for _, note := range x.Notes() {
		t.Log(note)
	}
	for _, s := range skipped {
		t.Logf("not run because %s: %d", s.Reason, len(s.Plans))
	}
	if len(plans) == 0 && only == "" {
		t.Error("nothing is tried: none of the faults fits what the operator did during the scenario")
	}
	for _, p := range plans {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			run, err := x.Try(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			reportRun(t, run)
		})
	}
}

func validate(s Scenario, c *config) error {
	if len(s) == 0 {
		return errors.New("the scenario has no step")
	}
	names := map[string]bool{}
	for i, step := range s {
		if step.Name == "" || step.Do == nil || names[step.Name] {
			return fmt.Errorf("step %d of the scenario, %q: it needs a name of its own and a function", i+1, step.Name)
		}
		names[step.Name] = true
	}
	for _, fault := range c.Faults {
		if !explore.IsFault(fault) {
			return fmt.Errorf("there is no fault %q to be tried: the faults are %s", fault, strings.Join(explore.Faults(), ", "))
		}
	}
	for _, oracle := range c.Without {
		if !slices.Contains(Oracles(), oracle) {
			return fmt.Errorf("there is no oracle %q to be switched off: the oracles are %s", oracle, strings.Join(Oracles(), ", "))
		}
	}
	return nil
}

// reportRun tells how a run ended.
func reportRun(t *testing.T, run report.Run) {
	t.Helper()
	switch run.Outcome {
	case report.Untried:
		t.Skipf("not tried: %s", run.Why)
	case report.Failed:
		var b strings.Builder
		if err := report.WriteText(&b, &report.Report{Runs: []report.Run{run}}, report.OnlyFailures()); err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s", b.String())
	case report.Passed:
	}
}

func replay(test, plan string) string {
	pattern := make([]string, 0, 4)
	for part := range strings.SplitSeq(test+"/"+strings.Join(strings.Fields(plan), "_"), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	return fmt.Sprintf("go test -run '%s' .", strings.Join(pattern, "/"))
}
