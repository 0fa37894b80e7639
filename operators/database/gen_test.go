package database_test

import (
	"testing"

	"github.com/homeostat-dev/homeostat/operators/database"
	"github.com/homeostat-dev/homeostat/testkit/gen"
)

// The final state depends on the last specification alone. The seed is fixed; the flag -testkit.seed sets another one.
func TestPathIndependence(t *testing.T) {
	t.Parallel()
	steps := 30
	if testing.Short() { // all of them take a minute
		steps = 10
	}
	for _, sample := range []string{"example", "full"} {
		t.Run(sample, func(t *testing.T) {
			t.Parallel()
			gen.Explore(t, database.New(database.Options{}),
				gen.From("config/crd/techoral.com_databases.yaml", "config/samples/"+sample+".yaml"),
				gen.AllowResidue("persistentvolumeclaims", "secrets"), // kept by the deletionPolicy Retain
				gen.Seed(1), gen.Sequences(1), gen.Steps(steps))
		})
	}
}
