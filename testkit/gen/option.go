package gen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// The oracles of this package. The others are those of package chaos.
const (
	oracleFresh    = "fresh"    // what came of a manifest is not what comes of it alone
	oracleRecovery = "recovery" // the same, when the manifest had been there before
	oracleRefused  = "refused"  // the API server refuses what the operator sends
)

// Oracles are the names of what is held against every operator, as reports use them and [Without] takes them.
func Oracles() []string {
	all := []string{oracleFresh, oracleRecovery}
	for _, name := range explore.Oracles() {
		switch name {
		case "scenario", "end-state", "creations", "writes-after-restart", "lost-update", "rights":
			// Nothing here brings these about.
		default:
			all = append(all, name)
		}
	}
	return all
}

// An Option changes how an operator is explored.
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
	c.Options.Patience, c.Options.Rest = defaultTimeout, time.Second
	for _, opt := range opts {
		opt(c)
	}
	for _, oracle := range c.Options.Without {
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

func (c *config) has(oracle string) bool { return !slices.Contains(c.Options.Without, oracle) }

// Steps is how many steps a sequence has, the sample being the first. The default is 20. The returns to an earlier manifest
// count. A step takes about half a second.
func Steps(n int) Option { return func(c *config) { c.steps = n } }

// Sequences is how many sequences there are. The default is 2.
func Sequences(n int) Option { return func(c *config) { c.sequences = n } }

// Seed makes the same choices each time, unless the flag -testkit.seed says otherwise. The default, 0, is by chance.
func Seed(n int64) Option { return func(c *config) { c.seed = n } }

// Shrink is for how long a failure is made smaller. The default is 30 s, and 0 shows it as it was found.
func Shrink(d time.Duration) Option { return func(c *config) { c.shrink = d } }

// Without switches oracles off. The reason is for the reader of the test.
func Without(reason string, oracles ...string) Option {
	return func(c *config) {
		_ = reason
		c.Options.Without = append(c.Options.Without, oracles...)
	}
}

// IgnorePaths names places that may depend on what the custom resource was before, as reports show them: objects, such as
// "persistentvolumeclaims/data", or their fields, such as "secrets/web.data.password". The reason is for the reader of the
// test.
func IgnorePaths(reason string, places ...string) Option {
	return func(c *config) {
		_ = reason
		for _, place := range places {
			c.ignored[place] = true
		}
	}
}

// AllowResidue names resources, such as "persistentvolumeclaims", that may stay when the custom resource has gone.
func AllowResidue(resources ...string) Option {
	return func(c *config) { c.Options.Keeps = append(c.Options.Keeps, resources...) }
}

// Invariant checks each state that a namespace went through. The function returns what is wrong with the objects that exist, or
// "". They have the Go types that testkit.Env's scheme knows, such as *corev1.Pod; others are unstructured.
func Invariant(name string, holds func(objects []client.Object) string) Option {
	return func(c *config) {
		c.Options.Never = append(c.Options.Never, explore.Invariant{Name: name, Holds: holds})
	}
}

// Before runs once in each namespace before the operator starts, for what custom resources refer to.
func Before(setup func(k *testkit.K)) Option { return func(c *config) { c.Options.Setup = setup } }

// QuietPeriod is how long the operator must not write to count as being at rest when it is in doubt what came of a step. What
// differs then has to last three times as long. The default is 1 s: raise it for an operator that looks again by a clock of
// its own.
func QuietPeriod(d time.Duration) Option { return func(c *config) { c.Options.Rest = d } }

// Timeout is how long the operator may take to come to rest. The default is 30 s. Steps that pass do not wait for it.
func Timeout(d time.Duration) Option { return func(c *config) { c.Options.Patience = d } }

// ServiceAccount names the ServiceAccount that the operator runs as. It is needed if the files of testkit.Env have several.
func ServiceAccount(serviceAccount string) Option {
	return func(c *config) { c.account = serviceAccount }
}

// StartWith are options with which the operator is started in each namespace.
func StartWith(opts ...testkit.StartOption) Option {
	return func(c *config) { c.start = append(c.start, opts...) }
}
