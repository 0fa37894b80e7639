package chaos

import (
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/kitadapter"
)

// Each returns an operator for [Sweep] and gen.Explore that the function makes anew in each run. The function is called
// before the first start of the operator; later processes of the run use the same value. It may call k.External and give the
// URL to the operator, or limit the operator to the objects of the run. K.Run does not accept the result.
func Each(operator func(k *testkit.K) testkit.Runnable) testkit.Runnable {
	return kitadapter.NewEach(operator)
}

// AfterRun calls finish at the end of each run, after the deletion of the custom resources and before the operator is
// stopped. A run that fails or ends early calls it, too.
//
// Code after Sweep, and a deferred function, runs before the first run with a fault: those are parallel subtests. Use
// t.Cleanup for code that must run after all runs.
func AfterRun(finish func(k *testkit.K)) Option {
	return func(c *config) { c.Options.AfterRun = kitadapter.Action(finish) }
}

// Check adds a rule for the idle operator. The function is called after each step, and after the deletion of the custom
// resources, when the operator is idle and the state is that of the runs without a fault. It returns a description of the
// violation, or "". The name of the oracle is "never", as that of [Invariant]. The function may be called in several runs at
// once.
func Check(name string, violation func(k *testkit.K) string) Option {
	return func(c *config) { c.Checks = append(c.Checks, kitadapter.Check(name, violation)) }
}
