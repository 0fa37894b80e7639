package scripts_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dumping prepares a member that dumps, and restores, with a table of 2,000 orders.
func dumping(t *testing.T) *member {
	t.Helper()
	m := newPrimary(t)
	m.must("init.sh")
	m.start(0)
	m.login("app", "p'a\\ss:word", "CREATE TABLE orders (id int PRIMARY KEY, text text); "+
		"INSERT INTO orders SELECT i, md5(i::text) FROM generate_series(1, 2000) AS i")
	m.backups("backups")
	return m
}

// backups sets where dumps are, and how many stay.
func (m *member) backups(dir string) {
	m.t.Helper()
	m.env["BACKUPS"], m.env["KEEP"], m.env["HOST"], m.env["PORT"] = m.dir+"/"+dir, "3", "127.0.0.1", m.port()
	if err := os.MkdirAll(m.env["BACKUPS"], 0o755); err != nil {
		m.t.Fatal(err)
	}
	m.own(m.dir)
}

// dump makes one and returns what it tells.
func (m *member) dump(name string) (told struct {
	Name, SHA256, ServerVersion string
	SizeBytes                   int64
},
) {
	m.t.Helper()
	m.env["NAME"] = name
	m.must("dump.sh")
	text, err := os.ReadFile(m.env["TERMINATION_LOG"])
	if err := errors.Join(err, json.Unmarshal(text, &told)); err != nil {
		m.t.Fatalf("%v: %s", err, text)
	}
	return told
}

// files lists what is in the directory of the dumps.
func (m *member) files() []string {
	m.t.Helper()
	entries, err := os.ReadDir(m.env["BACKUPS"])
	if err != nil {
		m.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// What was dumped is what is restored, once, and only into an empty database.
func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	m := dumping(t)
	before := m.query(checksum)
	told := m.dump("20261101T0200")
	if told.Name != "20261101T0200" || len(told.SHA256) != 64 || told.SizeBytes < 1000 || told.ServerVersion == "" {
		t.Errorf("it tells %+v", told)
	}
	if why := m.refused("restore.sh"); !strings.Contains(why, "is not empty: nothing is put over it") {
		t.Errorf("it says %q", why)
	}
	other := newPrimary(t)
	other.must("init.sh")
	other.start(0)
	other.env["BACKUPS"], other.env["NAME"], other.env["HOST"], other.env["PORT"] = m.env["BACKUPS"], told.Name, "127.0.0.1", other.port()
	for range 2 { // the second time it was done before
		other.must("restore.sh")
		if got := other.query(checksum); got != before {
			t.Errorf("%s was dumped, and %s restored", before, got)
		}
	}
	other.env["NAME"] = "20261101T0300"
	if why := other.refused("restore.sh"); !strings.Contains(why, "there is no dump") {
		t.Errorf("it says %q", why)
	}
}

// A dump that was damaged since is not restored, and leaves the database empty.
func TestDamagedDumpIsNotRestored(t *testing.T) {
	t.Parallel()
	m := dumping(t)
	told := m.dump("a")
	file := filepath.Join(m.env["BACKUPS"], "a.dump")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-100] ^= 1
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	m.own(m.dir)
	m.query("DROP TABLE orders")
	if why := m.refused("restore.sh"); !strings.Contains(why, "is not what it was when it was written") {
		t.Errorf("it says %q", why)
	}
	if err := os.Remove(filepath.Join(m.env["BACKUPS"], told.Name+".sha256")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text[:len(text)-200], 0o600); err != nil {
		t.Fatal(err)
	}
	m.own(m.dir)
	if why := m.refused("restore.sh"); !strings.Contains(why, "cannot be restored") {
		t.Errorf("it says %q", why)
	}
	if got := m.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"); got != "0" {
		t.Errorf("there are %s tables", got)
	}
}

// The newest stay, and only what is complete is counted.
func TestOldDumpsGo(t *testing.T) {
	t.Parallel()
	m := dumping(t)
	m.write("backups/0.dump.partial", "somebody died")
	m.own(m.dir)
	for _, name := range []string{"1", "2", "3", "4", "5"} {
		m.dump(name)
	}
	want := []string{"3.dump", "3.sha256", "4.dump", "4.sha256", "5.dump", "5.sha256"}
	if got := m.files(); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	m.dump("5") // again, as a Job that is tried again
	if got := m.files(); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

// A dump that lies is none: whatever goes wrong, there is no file with the name of a dump, and the older ones stay.
func TestDumpsThatLie(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ program, does, says string }{
		"fails at once":             {"pg_dump", "exit 1", "pg_dump failed"},
		"fails in the middle":       {"pg_dump", `head -c 300 /dev/urandom > "$BACKUPS/$NAME.dump.partial"; exit 1`, "pg_dump failed"},
		"has no room":               {"pg_dump", `ulimit -f 4; real "$@"`, "pg_dump failed"}, // as on a full disk
		"writes nothing":            {"pg_dump", "exit 0", "cannot be read back"},
		"writes half, and is happy": {"pg_dump", `real "$@"; truncate -s -500 "$BACKUPS/$NAME.dump.partial"`, "cannot be read back"},
		"writes something else":     {"pg_dump", `echo "-- nothing" > "$BACKUPS/$NAME.dump.partial"`, "cannot be read back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := dumping(t)
			m.env["KEEP"] = "1"
			m.dump("1")
			real, err := exec.LookPath("/usr/bin/" + c.program)
			if err != nil {
				t.Fatal(err)
			}
			m.write("bin/"+c.program, "#!/bin/bash\nreal() { "+real+" \"$@\"; }\n"+c.does+"\n")
			if err := os.Chmod(m.dir+"/bin/"+c.program, 0o755); err != nil {
				t.Fatal(err)
			}
			m.env["PATH"], m.env["NAME"] = m.dir+"/bin:"+m.env["PATH"], "2"
			if why := m.refused("dump.sh"); !strings.Contains(why, c.says) {
				t.Errorf("it says %q, want %q", why, c.says)
			}
			if got := m.files(); slices.Contains(got, "2.dump") || !slices.Contains(got, "1.dump") {
				t.Errorf("there are %q", got)
			}
		})
	}
}
