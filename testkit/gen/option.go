package gen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// The oracles of this package. All others are those of package chaos.
const (
	oracleFresh    = "fresh"    // the state after a manifest differs from that in an empty namespace
	oracleRecovery = "recovery" // the same, for a manifest that was applied before
	oracleRefused  = "refused"  // the API server rejects a request of the operator
)

// Oracles returns the names of the checks that apply to every operator, for reports and [WithoutOracles].
func Oracles() []string {
	all := []string{oracleFresh, oracleRecovery}
	for _, name := range explore.Oracles() {
		switch name {
		case oracleFresh, "scenario", "end-state", "creations", "writes-after-restart", "lost-update", "rights":
			// The first is listed already. The others need faults or a baseline.
		default:
			all = append(all, name)
		}
	}
	return all
}

// An Option configures an exploration.
type Option func(*config)

type config struct {
	explore.Options

	seed      int64
	steps     int
	sequences int
	shrink    time.Duration
	account   string
	start     []testkit.StartOption
	ignored   state.Mask
}

const (
	defaultSteps     = 20
	defaultSequences = 2
	defaultShrink    = 30 * time.Second
	defaultTimeout   = 30 * time.Second
)

func configure(opts []Option) (*config, error) {
	c := &config{steps: defaultSteps, sequences: defaultSequences, shrink: defaultShrink, ignored: state.Mask{}}
	c.Options.Opener = kitadapter.Open
	c.Options.Timeout = defaultTimeout
	c.Options.QuietPeriod = time.Second
	for _, opt := range opts {
		opt(c)
	}
	for _, oracle := range c.Options.DisabledOracles {
		if !slices.Contains(Oracles(), oracle) {
			return nil, fmt.Errorf("there is no oracle %q to be switched off: the oracles are %s",
				oracle, strings.Join(Oracles(), ", "))
		}
	}
	if c.steps < 1 || c.sequences < 1 {
		return nil, fmt.Errorf("%d sequences of %d steps are nothing to explore: give at least 1 of each", c.sequences, c.steps)
	}
	return c, nil
}

func (c *config) has(oracle string) bool { return !slices.Contains(c.Options.DisabledOracles, oracle) }

// Steps sets the number of steps in a sequence. The sample is the first, and returns to an earlier manifest count. The
// default is 20. A step takes about half a second.
func Steps(n int) Option { return func(c *config) { c.steps = n } }

// Sequences sets the number of sequences. The default is 2.
func Sequences(n int) Option { return func(c *config) { c.sequences = n } }

// Seed sets the seed of all choices, unless flag -testkit.seed is given. The default, 0, means a random seed.
func Seed(n int64) Option { return func(c *config) { c.seed = n } }

// ShrinkTimeout sets the time for shrinking a failure. The default is 30 s. 0 reports it unshrunk.
func ShrinkTimeout(d time.Duration) Option { return func(c *config) { c.shrink = d } }

// WithoutOracles switches oracles off. The reason is for readers of the test.
func WithoutOracles(reason string, oracles ...string) Option {
	return func(c *config) {
		_ = reason
		c.Options.DisabledOracles = append(c.Options.DisabledOracles, oracles...)
	}
}

// IgnorePaths excludes paths from the comparison of states, written as in reports: objects, such as
// "persistentvolumeclaims/data", or their fields, such as "secrets/web.data.password". Use it for results that may depend
// on earlier manifests. The reason is for readers of the test.
func IgnorePaths(reason string, places ...string) Option {
	return func(c *config) {
		_ = reason
		for _, place := range places {
			c.ignored[place] = true
		}
	}
}

// AllowResidue names resources, such as "persistentvolumeclaims", that may outlive the custom resource. The name "external"
// permits the entries of external services.
func AllowResidue(resources ...string) Option {
	return func(c *config) { c.Options.AllowResidue = append(c.Options.AllowResidue, resources...) }
}

// Invariant checks every state of a namespace. The function receives the existing objects and returns a description of
// the violation, or "". Objects have the Go types of testkit.Env's scheme, such as *corev1.Pod; those of kinds that the
// scheme does not have are unstructured. If the scheme has a kind in several served versions, its objects have the one that
// the API server prefers, in most cases the newest stable one. Explore fails if the scheme has a kind of the run in versions
// only that the API server does not serve.
func Invariant(name string, holds func(objects []client.Object) string) Option {
	return func(c *config) {
		c.Options.Invariants = append(c.Options.Invariants, explore.Invariant{Name: name, Holds: holds})
	}
}

// BeforeRun calls setup in each namespace before the operator starts. It creates objects that custom resources refer to.
func BeforeRun(setup func(k *testkit.K)) Option {
	return func(c *config) { c.Options.Setup = kitadapter.Action(setup) }
}

// AfterRun calls finish at the end of each run, before the operator is stopped. The custom resource may still exist: runs
// that apply one manifest in an empty namespace do not delete it. A failure ends the exploration.
func AfterRun(finish func(k *testkit.K)) Option {
	return func(c *config) { c.Options.AfterRun = kitadapter.Action(finish) }
}

// Check adds a rule for the idle operator. The function is called after each step that the operator can carry out, and
// after the deletion of the custom resource. It returns a description of the violation, or "". The name of the oracle is
// "never", as that of [Invariant]. The function may be called in several runs at once.
func Check(name string, violation func(k *testkit.K) string) Option {
	return func(c *config) { c.Checks = append(c.Checks, kitadapter.Check(name, violation)) }
}

// QuietPeriod sets the time without a write after which the operator counts as idle when the outcome of a step is in
// doubt. A difference must persist three times as long. The default is 1 s. Raise it for an operator that requeues
// periodically.
func QuietPeriod(d time.Duration) Option { return func(c *config) { c.Options.QuietPeriod = d } }

// Timeout sets the time within which the operator must become idle. The default is 30 s. Steps that pass do not wait for
// it.
func Timeout(d time.Duration) Option { return func(c *config) { c.Options.Timeout = d } }

// ServiceAccount names the ServiceAccount that the operator runs as. It is required if the files of testkit.Env contain
// several.
func ServiceAccount(serviceAccount string) Option {
	return func(c *config) { c.account = serviceAccount }
}

// WithStartOptions adds options for the start of the operator in each namespace.
func WithStartOptions(opts ...testkit.StartOption) Option {
	return func(c *config) { c.start = append(c.start, opts...) }
}
