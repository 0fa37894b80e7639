// Package gen applies generated custom resources to an operator and reports violations.
//
//	func TestExplore(t *testing.T) {
//		gen.Explore(t, database.Operator, gen.From("config/crd/databases.yaml", "config/samples/database.yaml"))
//	}
//
// Starting from the sample, it changes the custom resource step by step, within its CustomResourceDefinition and the
// validation of the API server. Changes that often reveal bugs come first. After each step the operator must become idle,
// and the result must not depend on earlier manifests (path independence): it is compared with the result of the same
// manifest in an empty namespace. Some steps are undone, and the earlier state must return. See [Oracles] for the other
// checks.
//
// The API server may accept a manifest that the operator cannot realize. This is no violation if the status reports it
// and the operator recovers with the next good manifest.
//
// A failing sequence is shrunk, usually to two manifests, and printed as YAML with the command that replays it.
// Differences between two runs with the same manifest, such as generated passwords, are ignored. With [Fuzz], go test
// -fuzz makes the choices.
//
// The custom resource may be cluster-scoped. Its name is then that of the sample with the namespace of the run as suffix,
// and the operator watches all namespaces. What it creates outside of the namespace needs names that contain that of the
// custom resource or of the namespace.
//
// The package injects no faults: see package chaos. It does not know the correct result of a manifest, only that the
// result must always be the same. It cannot find a result that is always wrong.
package gen

import (
	"fmt"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/explore"
	"github.com/homeostat-dev/homeostat/testkit/internal/seed"
)

// Explore runs the operator through sequences of custom resources. Each sequence is a parallel subtest: sequence-1 and so
// on. The seed is that of flag -testkit.seed, or of option Seed, or random. A failure prints it.
func Explore(t *testing.T, op testkit.Runnable, what Source, opts ...Option) {
	t.Helper()
	c := mustPrepare(t, op, what, opts)
	number := seed.FlagOr(c.seed)
	t.Logf("the seed is %d", number)
	for i := range c.sequences {
		t.Run(fmt.Sprintf("sequence-%d", i+1), func(t *testing.T) {
			t.Parallel()
			c.runSequence(t, c.bySeed(t, number, i), replaySeed(t, number))
		})
	}
}

// mustPrepare returns an exploration whose sample has been checked.
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
	k := testkit.New(t) // for dry runs of all sequences; each run has a namespace of its own
	c, err := newExploration(k, op, cfg, resource, sample)
	if err != nil {
		return nil, err
	}
	c.Options.Scheme = k.Client.Scheme()
	if c.x, err = explore.New(t.Context(), rest.CopyConfig(k.Config), c.Options); err != nil {
		return nil, err
	}
	t.Cleanup(c.x.Close)
	return c, nil
}
