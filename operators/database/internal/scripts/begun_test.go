//go:build linux

package scripts_test

import (
	"os"
	"path/filepath"
	"testing"
)

// A primary that had data does not start with an empty volume, because clients would mistake the empty database for theirs.
// A replica does, because it copies the primary.
func TestPrimaryWithDataIsNotReinitialized(t *testing.T) {
	t.Parallel()
	for engine, variable := range map[string]string{"postgresql": "PGDATA", "mariadb": "DATADIR"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			m := newPrimary(t, engine)
			m.write("config/begun", "true")
			m.env["BEGUN"] = filepath.Join(m.dir, "config", "begun")
			m.refuses("init.sh", "its volume is empty: restore the volume")
			if _, err := os.Stat(m.env[variable]); err == nil {
				t.Error("there is a data directory")
			}
			if err := os.Remove(m.env["BEGUN"]); err != nil {
				t.Fatal(err)
			}
			m.mustRun("init.sh")
			m.write("config/begun", "true")
			m.mustRun("init.sh") // it has data
		})
	}
}
