package database_test

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
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
		if testing.Short() && sample != "full" {
			continue
		}
		t.Run(sample, func(t *testing.T) {
			t.Parallel()
			gen.Explore(t, database.New(database.Options{}),
				gen.From("config/crd/techoral.com_databases.yaml",
					withRareSchedule(t, "config/samples/"+sample+".yaml")),
				gen.AllowResidue("persistentvolumeclaims", "secrets"), // kept by the deletionPolicy Retain
				gen.Seed(1), gen.Sequences(1), gen.Steps(steps))
		})
	}
}

// withRareSchedule writes a sample that has a schedule with another one, and returns the file. The CronJob controller has
// the real time: the schedule of the sample would make a dump in runs at one time of day, and its result would differ from
// that of other runs.
func withRareSchedule(t *testing.T, sample string) string {
	t.Helper()
	data, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	var db v1.Database
	if err := yaml.UnmarshalStrict(data, &db); err != nil {
		t.Fatal(err)
	}
	if db.Spec.Backup.Schedule == "" {
		return sample
	}
	db.Spec.Backup.Schedule = rareSchedule
	if data, err = yaml.Marshal(&db); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), filepath.Base(sample))
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
