//go:build linux

package scripts_test

import (
	"os"
	"path/filepath"
	"testing"
)

// A primary that had data does not begin anew with an empty volume: clients would take the empty database for theirs. A
// replica may, because it gets what the primary has.
func TestNobodyBeginsAnew(t *testing.T) {
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
			m.must("init.sh")
			m.write("config/begun", "true")
			m.must("init.sh") // it has data
		})
	}
}
