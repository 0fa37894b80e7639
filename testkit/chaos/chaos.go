// Package chaos runs an operator through a scenario once for each fault, and reports violations.
//
//	func TestFaults(t *testing.T) {
//		chaos.Sweep(t, database.Operator, chaos.Scenario{
//			{"create", func(k *testkit.K) { k.Apply(sample(1)) }},
//			{"scale up", func(k *testkit.K) { k.Apply(sample(3)) }},
//		}, chaos.All)
//	}
//
// After each step, Sweep waits until the operator is idle. Three baseline runs without a fault establish the expected
// states and nondeterministic values. The states after edits are compared with those of a fresh operator, which finds
// the same objects in another namespace. Then there is one run, a subtest, for each fault at each place where it can
// matter. A run passes if every step ends in the baseline's state and no rule for all operators is violated: see
// [Oracles].
//
// The operator runs in this process. A kill stops its manager, and no further request leaves it. Global variables
// survive, unlike in a real process. For operators in other languages and for real kills, use the command testkit
// explore.
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

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/report"
	"github.com/homeostat-dev/homeostat/testkit/internal/seed"
)

// Step is one step of a scenario: an action of a user. It need not wait for the outcome.
type Step struct {
	Name string
	Do   func(k *testkit.K)
}

// Scenario is a list of steps in order. Their names must differ.
type Scenario []Step

// Faults is a list of faults. A name includes all faults that begin with it: "crash" includes crash-before and
// crash-after.
type Faults []string

// All is every fault. With -short, some are tried only if they are named.
var All = Faults(nil)

// The faults.
const (
	Crash        = "crash"         // killed before or after a write; or after it, with a deletion during the downtime
	Error        = "error"         // a request fails with 500, 503 or 429
	LostResponse = "lost-answer"   // a write succeeds and its response is lost
	Conflict     = "conflict"      // another manager changes the object right before a write
	Lag          = "lag"           // watch events of a kind are delayed
	Down         = "down"          // the operator does not run during a step
	Missed       = "missed"        // the state between two steps is never seen
	WatchClosed  = "watch-closed"  // watches end without an error; objects are deleted later, and the operator must notice
	WatchBroken  = "watch-broken"  // the connections of watches break, and likewise
	WatchExpired = "watch-expired" // watches end with 410 Gone, and likewise
	Drift        = "drift"         // children, or fields that the operator added to objects of users, are deleted or changed
	Deleted      = "deleted"       // the custom resource is deleted during a reconcile
	Failover     = "failover"      // the leader of two replicas is killed, or paused
	External     = "external"      // a service of testkit.K.External refuses a request, answers late, or its answer is lost
	Webhook      = "webhook"       // an admission webhook of Env.Webhooks is not served for a write, or answers late

	NamespaceDeleted = "namespace-deleted" // everything is deleted at once, and creations are rejected
)

// The faults that Sweep tries with -short only if they are named.
const (
	Foreign   = "foreign"    // an object of another owner has the name of a child
	DriftAll  = "drift-all"  // all children are deleted at once
	PodFailed = "pod-failed" // a pod of the operator fails for ever
	Recreated = "recreated"  // an object of the scenario is deleted and created again
	Outage    = "outage"     // the API server refuses requests, or is slow or restarted, for seconds
	Pair      = "pair"       // two faults that follow each other

	// Application breaks a pod of the operator, or of its workloads, for a while: a container is killed, exceeds its memory
	// limit or does not answer, or the pod is evicted, lost with its node or separated from the pods of other nodes. It needs
	// Env.Workloads or, for the last one, Env.Real.
	Application = "application"

	DriftMetadata  = "drift-metadata"  // the labels and annotations of a child are removed
	FailoverPaused = "failover-paused" // the leader of two replicas is paused, and its write is late
)

// Oracles returns the names of the checks that apply to every operator, for reports and [WithoutOracles].
func Oracles() []string { return explore.Oracles() }

// An Option configures a sweep.
type Option func(*config)

type config struct {
	explore.Options

	start []testkit.StartOption
}

// WithoutOracles switches oracles off. The reason is for readers of the test.
func WithoutOracles(reason string, oracles ...string) Option {
	return func(c *config) {
		_ = reason
		c.DisabledOracles = append(c.DisabledOracles, oracles...)
	}
}

// AllowResidue names resources, such as "persistentvolumeclaims", that may outlive the custom resource. The name "external"
// permits the entries of external services.
func AllowResidue(resources ...string) Option {
	return func(c *config) { c.AllowResidue = append(c.AllowResidue, resources...) }
}

// ExternallyManaged names objects, such as "secrets/web", and fields, such as "deployments.apps/web.spec.replicas", that
// the operator sets on creation and does not manage afterwards. No fault changes them.
func ExternallyManaged(places ...string) Option {
	return func(c *config) { c.ExternallyManaged = append(c.ExternallyManaged, places...) }
}

// Irreplaceable names objects, such as "secrets/web", that the operator cannot recreate with the same content. No fault
// deletes them.
func Irreplaceable(objects ...string) Option {
	return func(c *config) { c.Irreplaceable = append(c.Irreplaceable, objects...) }
}

// Invariant checks every state of the run's namespace. The function receives the existing objects and returns a
// description of the violation, or "". Objects have the Go types of testkit.Env's scheme, such as *corev1.Pod; those of
// kinds that the scheme does not have are unstructured. If the scheme has a kind in several served versions, its objects
// have the one that the API server prefers, in most cases the newest stable one. Sweep fails if the scheme has a kind of the
// run in versions only that the API server does not serve.
func Invariant(name string, holds func(objects []client.Object) string) Option {
	return func(c *config) { c.Invariants = append(c.Invariants, explore.Invariant{Name: name, Holds: holds}) }
}

// BeforeRun calls setup in each run before the operator starts. It creates prerequisites of the scenario.
func BeforeRun(setup func(k *testkit.K)) Option {
	return func(c *config) { c.Setup = kitadapter.Action(setup) }
}

// QuietPeriod sets the time without a write after which the operator counts as idle in a baseline run. The default is 1
// s. An operator that writes periodically must be idle between two writes: lower the period if they come faster. A
// polling operator has five periods to list after a change: raise the period if it polls less often.
func QuietPeriod(d time.Duration) Option { return func(c *config) { c.QuietPeriod = d } }

// Timeout sets the time within which the operator must reach the baseline's state. The default is 30 s, or three times the
// time that the operator takes to repeat a failed write, which a run with a failing write measures. Runs that pass do not
// wait for it, nor does a run whose operator is known to have nothing to do.
func Timeout(d time.Duration) Option { return func(c *config) { c.Timeout = d } }

// Budget sets the time after which no further run is started, counted from the end of the baseline runs. The first plan of
// each fault is tried first, then the second one, and so on. The other plans are skipped. The default is no limit.
func Budget(d time.Duration) Option { return func(c *config) { c.Budget = d } }

// WithStartOptions adds options for the start of each process.
func WithStartOptions(opts ...testkit.StartOption) Option {
	return func(c *config) { c.start = append(c.start, opts...) }
}

// FromSetup returns an operator from a function that registers controllers with a manager.
func FromSetup(setup testkit.SetupFunc) testkit.Runnable { return setupOperator(setup) }

type setupOperator testkit.SetupFunc

// SetupInNamespaces implements testkit.Runnable. The cache of the manager is limited to the test's namespace.
func (p setupOperator) SetupInNamespaces(mgr manager.Manager, _ ...string) error {
	return p(mgr)
}

// Sweep tries every fault. Each run is a subtest with the name of its plan, so that -run can select it. With -short, it
// tries at least 20 plans, unless -run names a plan: one of each fault; a conflict and a lag for up to three kinds of
// children; up to three pairs of steps with the operator down; and others selected by the seed. It injects faults of
// several steps in one run, and each fault alone if that run fails. Such a run is a subtest with the name run-1, run-2 and
// so on, and its plans are subtests of it.
//
// Runs with a fault are parallel subtests, so Sweep returns before them, and so do deferred functions run. See [AfterRun],
// [Check], and t.Cleanup.
func Sweep(t *testing.T, op testkit.Runnable, s Scenario, faults Faults, opts ...Option) {
	t.Helper()
	c := &config{Options: explore.Options{Name: t.Name(), Opener: kitadapter.Open, Faults: faults, Seed: seed.FlagOr(0)}}
	for _, opt := range opts {
		opt(c)
	}
	if err := c.setSteps(s); err != nil {
		t.Fatal(err)
	}
	c.Subject = kitadapter.InProcess(func(k *testkit.K, opts ...testkit.StartOption) explore.Process {
		return k.Run(kitadapter.Operator(op, k), slices.Concat(c.start, opts)...)
	})
	c.Replay = func(plan string) string { return replay(t.Name(), plan, c.Seed) }
	_, only, _ := strings.Cut(flag.Lookup("test.run").Value.String(), "/")
	k := testkit.New(t) // for the configuration; each run has a namespace of its own
	c.Scheme = k.Client.Scheme()
	x, err := explore.New(t.Context(), rest.CopyConfig(k.Config), c.Options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, note := range x.FaultNotes() {
			t.Log(note)
		}
		x.Close()
	})
	began := time.Now()
	runs, err := x.RunBaseline(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := &findings{}
	t.Cleanup(func() { f.summarize(t) })
	if text := f.add(t, runs...); text != "" {
		t.Error(text)
	}
	if !x.HasBaseline() {
		t.Error(strings.Join(x.Notes(), "\n"))
		return
	}
	t.Logf("the baseline runs took %v", time.Since(began).Round(time.Millisecond))
	plans := selectPlans(t, x, only)
	over := time.Now().Add(x.Budget)
	if !testing.Short() || only != "" {
		for _, p := range plans {
			tryPlan(t, x, f, p, over)
		}
		return
	}
	for i, group := range explore.Group(plans) {
		if len(group) == 1 {
			tryPlan(t, x, f, group[0], over)
			continue
		}
		tryGroup(t, x, f, fmt.Sprintf("run-%d", i+1), group, over)
	}
}

// tryGroup tries several plans in one parallel subtest, unless the time is over before it starts.
func tryGroup(t *testing.T, x *explore.Explorer, f *findings, name string, group []explore.Plan, over time.Time) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		skipIfOver(t, x, over)
		runs, err := x.RunGroup(t.Context(), group)
		for _, run := range runs {
			t.Run(run.Name, func(t *testing.T) { reportRun(t, f, run) })
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

// tryPlan tries a plan in a parallel subtest, unless the time is over before it starts.
func tryPlan(t *testing.T, x *explore.Explorer, f *findings, p explore.Plan, over time.Time) {
	t.Helper()
	t.Run(p.Name(), func(t *testing.T) {
		t.Parallel()
		skipIfOver(t, x, over)
		run, err := x.RunPlan(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		reportRun(t, f, run)
	})
}

// skipIfOver skips a run that would begin after the budget.
func skipIfOver(t *testing.T, x *explore.Explorer, over time.Time) {
	t.Helper()
	if x.Budget > 0 && time.Now().After(over) {
		t.Skipf("not tried: the time of %v is over", x.Budget)
	}
}

// selectPlans returns the plans to try. only is the part of the flag -run that selects subtests.
func selectPlans(t *testing.T, x *explore.Explorer, only string) []explore.Plan {
	t.Helper()
	if x.Effects() == 0 {
		t.Fatal("nothing is tried: the operator changed no object in the runs without a fault: " +
			"let the scenario create an object that it reconciles")
	}
	plans, skipped := x.Plans()
	if testing.Short() && only == "" {
		few := x.ShortPlans(plans)
		t.Logf("%d of %d plans are tried, because of -short", len(few), len(plans))
		plans = few
	}
	if x.Budget > 0 {
		plans = explore.SelectPlans(plans, len(plans))
	}
	t.Logf("%d plans to try, in the order of seed %d", len(plans), x.Seed)
	for _, note := range x.Notes() {
		t.Log(note)
	}
	for _, s := range skipped {
		t.Logf("not run because %s: %d", s.Reason, len(s.Plans))
	}
	if len(plans) == 0 && only == "" {
		t.Error("nothing is tried: none of the faults fits what the operator did during the scenario")
	}
	return plans
}

// setSteps sets the steps of a valid scenario.
func (c *config) setSteps(s Scenario) error {
	if err := validate(s, c); err != nil {
		return err
	}
	for _, step := range s {
		c.Steps = append(c.Steps, kitadapter.Step(step.Name, step.Do))
	}
	return nil
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
	for _, oracle := range c.DisabledOracles {
		if !slices.Contains(Oracles(), oracle) {
			return fmt.Errorf("there is no oracle %q to be switched off: the oracles are %s", oracle, strings.Join(Oracles(), ", "))
		}
	}
	return nil
}

// reportRun fails or skips the subtest according to the run.
func reportRun(t *testing.T, f *findings, run report.Run) {
	t.Helper()
	switch run.Outcome {
	case report.Untried:
		t.Skipf("not tried: %s", run.UntriedReason)
	case report.Failed:
		t.Error(f.add(t, run))
	case report.Passed:
	}
}

// replay returns the command that repeats a plan. Combined plans have no subtest of their own: the seed selects them again.
func replay(test, plan string, number int64) string {
	combined := strings.Contains(plan, " + ")
	if !combined {
		test += "/" + strings.Join(strings.Fields(plan), "_")
	}
	pattern := make([]string, 0, 4)
	for part := range strings.SplitSeq(test, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	command := fmt.Sprintf("go test -run '%s' .", strings.Join(pattern, "/"))
	if combined {
		command += fmt.Sprintf(" -short -%s=%d", seed.Flag, number)
	}
	return command
}
