package myapp_test

import (
	"testing"

	"github.com/homeostat-dev/homeostat/operators/myapp"
	"github.com/homeostat-dev/homeostat/testkit/gen"
)

// The final state depends on the last specification only. The seed makes the test deterministic; the flag -testkit.seed
// tries others.
func TestPathIndependence(t *testing.T) {
	t.Parallel()
	steps := 30
	if testing.Short() { // all of them take a minute
		steps = 10
	}
	for sample, more := range map[string][]gen.Option{
		"example": nil,
		"full": {
			gen.IgnorePaths("the autoscaler decides, and begins with what there is", "deployments.apps/shop.spec.replicas"),
		},
	} {
		if testing.Short() && sample != "full" {
			continue
		}
		t.Run(sample, func(t *testing.T) {
			t.Parallel()
			gen.Explore(t, myapp.Operator,
				gen.From("config/crd/mycompany.com_myapps.yaml", "config/samples/"+sample+".yaml"),
				// The default of deletionPolicy is RetainData.
				append(more, gen.AllowResidue("persistentvolumeclaims"), gen.Seed(1), gen.Sequences(1), gen.Steps(steps))...)
		})
	}
}
