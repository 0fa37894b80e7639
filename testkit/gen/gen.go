// Package gen makes an operator follow custom resources that nobody thought of, and says what it did wrong.
//
//	func TestExplore(t *testing.T) {
//		gen.Explore(t, database.Operator, gen.From("config/crd/databases.yaml", "config/samples/database.yaml"))
//	}
//
// Beginning with the sample it changes the custom resource step by step: whatever its CustomResourceDefinition allows and
// the API server accepts, what operators are known to stumble over first. After each step the operator has to come to rest,
// and what it has made then must not depend on how it came there: it is compared with what the operator makes of the same
// manifest in a namespace where there was nothing before. Now and then a step is undone, and everything has to be as it
// was. See [Oracles] for the rest.
//
// A manifest that the API server accepts and the operator cannot carry out is nobody's failure, as long as the operator says
// so and comes back when the custom resource is good again.
//
// What fails is shrunk to the least that fails, mostly a pair of manifests, and printed as YAML with the command that
// replays it. What differs between two runs on the same manifest, such as a generated password, does not count. [Fuzz] lets
// go test -fuzz make the choices.
//
// It is not for what goes wrong around the operator: see package chaos. It does not know what the operator should make of a
// manifest, only that it should make it always: what is wrong each time in the same way is not found.
package gen

import (
	"fmt"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/seed"
)

// Explore runs the operator through sequences of custom resources. Each is a subtest of its own, sequence-1 and so on, and
// they run in parallel. The choices are made by the flag -testkit.seed or, without it, by Seed or by chance; the seed is
// printed if something is found.
func Explore(t *testing.T, op testkit.Runnable, what Source, opts ...Option) {
	t.Helper()
	c := mustPrepare(t, op, what, opts)
	number := seed.Or(c.seed)
	t.Logf("the seed is %d", number)
	for i := range c.sequences {
		t.Run(fmt.Sprintf("sequence-%d", i+1), func(t *testing.T) {
			t.Parallel()
			c.runSequence(t, c.bySeed(t, number, i), replaySeed(t, number))
		})
	}
}

// mustPrepare prepares everything that the runs of one test have in common, and makes those of the sample.
func mustPrepare(t testing.TB, op testkit.Runnable, what Source, opts []Option) *exploration {
	t.Helper()
	c, err := prepare(t, op, what, opts)
	if err == nil {
		err = c.checkSample(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func prepare(t testing.TB, op testkit.Runnable, what Source, opts []Option) (*exploration, error) {
	t.Helper()
	cfg, err := configure(opts)
	if err != nil {
		return nil, err
	}
	resource, sample, err := what.read()
	if err != nil {
		return nil, err
	}
	k := testkit.New(t) // asks for everybody what is valid; each run has a namespace of its own
	c, err := newExploration(k, op, cfg, resource, sample)
	if err != nil {
		return nil, err
	}
	if c.x, err = explore.New(t.Context(), rest.CopyConfig(k.Config), c.Options); err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	t.Cleanup(c.x.Close)
	return c, nil
}
