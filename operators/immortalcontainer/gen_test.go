package immortalcontainer_test

import (
	"testing"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer"
	"github.com/homeostat-dev/homeostat/testkit/gen"
)

// The final state depends on the last specification only. The seed makes the test deterministic; the flag -testkit.seed
// tries others.
func TestPathIndependence(t *testing.T) {
	t.Parallel()
	const crd = "config/crd/immortalcontainer.flugel.it_immortalcontainers.yaml"
	for sample, more := range map[string][]gen.Option{
		"example": {gen.Sequences(2)},
		"full":    {gen.Sequences(1), gen.AllowResidue("pods")}, // its deletionPolicy is Orphan
	} {
		if testing.Short() { // all of it takes half a minute
			if sample != "example" {
				continue
			}
			more = []gen.Option{gen.Sequences(1)}
		}
		t.Run(sample, func(t *testing.T) {
			t.Parallel()
			gen.Explore(t, immortalcontainer.Operator, gen.From(crd, "config/samples/"+sample+".yaml"),
				append(more, gen.Seed(1), gen.Steps(10))...)
		})
	}
}
