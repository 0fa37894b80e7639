//go:build linux

package scripts_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// told is what a dump, a restore or prune.sh tells.
type told struct {
	Name, Location, SHA256, ServerVersion, Verified string
	SizeBytes                                       int64
	Seconds                                         *int
	Left, Held                                      []string
}

// dumping is a member with a table of orders, and the first job of it.
func dumping(t *testing.T, engine string) *member {
	t.Helper()
	m := started(t, engine)
	m.login("app", credentials["password"], fillWith[engine])
	m.env["HOST"], m.env["PORT"] = "127.0.0.1", m.port()
	return m.job(t)
}

// jobs is how many there were: each has another ordinal.
var jobs atomic.Int64

// job is a pod that dumps or restores and, unless somebody changes that, has dumps of its own.
func (m *member) job(t *testing.T) *member {
	t.Helper()
	j := &member{t: t, engine: m.engine, dir: m.dir, env: maps.Clone(m.env), running: m.running, sockets: m.env["SOCKETS"]}
	if m.sockets != "" {
		j.sockets = m.sockets
	}
	j.place(int(100 + jobs.Add(1)))
	j.env["BACKUPS"], j.env["KEEP"] = j.home()+"/backups", "3"
	if err := os.MkdirAll(j.env["BACKUPS"], 0o755); err != nil {
		t.Fatal(err)
	}
	j.own()
	return j
}

// dumped puts a file among the dumps.
func (m *member) dumped(name, text string) { m.write(strconv.Itoa(m.ordinal)+"/backups/"+name, text) }

// tells runs a script and returns what it tells.
func (m *member) tells(script string) (got told) {
	m.t.Helper()
	m.must(script)
	text := m.told()
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		m.t.Fatalf("%v: %s", err, text)
	}
	return got
}

// dump makes one and returns what it tells.
func (m *member) dump(name string) told {
	m.t.Helper()
	m.env["NAME"] = name
	return m.tells("dump.sh")
}

// dumpTo makes a dump, which has to say all about itself, and that it is in that place below its name.
func (m *member) dumpTo(name, location string) told {
	m.t.Helper()
	got := m.dump(name)
	if got.Name != name || got.Location != name+location || len(got.SHA256) != 64 || got.SizeBytes < 1000 ||
		!strings.HasPrefix(got.ServerVersion, "1") || got.Seconds == nil {
		m.t.Errorf("it tells %+v", got)
	}
	return got
}

// restores puts back the dump of that name, after which the checksum has to be this.
func (m *member) restores(name, checksum, want string) {
	m.t.Helper()
	if done := m.tells("restore.sh"); done.Name != name || done.Seconds == nil {
		m.t.Errorf("it tells %+v", done)
	}
	if got := m.query(checksum); got != want {
		m.t.Errorf("%s was dumped, and %s restored", want, got)
	}
}

// dumps lists what is in the directory of dumps, but for the lock.
func (m *member) dumps() []string {
	m.t.Helper()
	entries, err := os.ReadDir(m.env["BACKUPS"])
	if err != nil {
		m.t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		if e.Name() != ".lock" {
			names = append(names, e.Name())
		}
	}
	return names
}

// The newest stay, those that are held stay, and only what is complete is counted.
func TestOldDumpsGo(t *testing.T) {
	t.Parallel()
	m := dumping(t, "postgresql")
	m.dumped(".partial.aaaaaa/app.dump", "somebody died")
	m.dumped(".deleted.aaaaaa/0/about.json", "somebody died")
	m.dumped("9/precious", "of somebody else")
	for _, name := range []string{"1", "2", "3"} {
		m.dump(name)
	}
	m.dumped("2.hold", "")
	for _, name := range []string{"4", "5", "6"} {
		m.dump(name)
	}
	want := []string{"2", "2.hold", "4", "5", "6", "9"}
	first := m.dump("6") // again, as a Job that is tried again
	if got := m.dumps(); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	if again := m.dump("6"); again.SHA256 != first.SHA256 || again.SizeBytes != first.SizeBytes {
		t.Errorf("it tells %+v, and again %+v", first, again)
	}
	m.env["KEEP"] = "0"
	m.dump("7")
	if got, want := m.dumps(), []string{"2", "2.hold", "4", "5", "6", "7", "9"}; !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	m.env["KEEP_FOR"] = "3600"
	const long = 2 * time.Hour
	for name, ago := range map[string]time.Duration{"4": long, "5": time.Minute, "6": long, "7": long} {
		m.ago(name, ago)
	}
	m.dump("1") // the newest, with the least name
	if got, want := m.dumps(), []string{"1", "2", "2.hold", "5", "9"}; !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	m.env["NAMES"], m.env["LAST"] = "2 5 not-there", "gone" // without which none may go
	if got := m.tells("prune.sh"); !slices.Contains(got.Left, "5") {
		t.Errorf("it tells %+v", got)
	}
	m.env["LAST"] = "1"
	if got := m.tells("prune.sh"); !slices.Equal(got.Left, []string{"1", "2"}) || !slices.Equal(got.Held, []string{"2"}) {
		t.Errorf("it tells %+v", got)
	}
	if got, want := m.dumps(), []string{"1", "2", "2.hold", "9"}; !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	m.env["NAMES"] = "1 ../credentials"
	why := m.refused("prune.sh")
	if !strings.Contains(why, "cannot be the name of a dump") || !slices.Contains(m.dumps(), "1") {
		t.Errorf("it says %q", why)
	}
}

// A message of Kubernetes has 4096 bytes, however many dumps there are.
func TestManyDumpsAreTold(t *testing.T) {
	t.Parallel()
	m := newPrimary(t, "postgresql").job(t)
	for i := range 100 {
		m.dumped(""+strings.Repeat("n", 60)+strconv.Itoa(1000+i)+"/about.json", "{}")
	}
	got := m.tells("prune.sh")
	if len(m.told()) > 4096 || len(got.Left) < 50 || !strings.HasSuffix(got.Left[0], "1099") {
		t.Errorf("it tells %s", m.told())
	}
}

// A dump that lies is none: whatever goes wrong, none has its name, the older ones stay, and nothing takes up room.
func TestDumpsThatLie(t *testing.T) {
	t.Parallel()
	server := dumping(t, "postgresql")
	const file = `for a; do case $a in --file=*) file=${a#--file=} ;; esac; done; `
	for name, c := range map[string]struct{ env, program, does, says string }{
		"fails at once":             {"", "pg_dump", "exit 1", "pg_dump failed"},
		"fails in the middle":       {"", "pg_dump", file + `head -c 300 /dev/urandom > "$file"; exit 1`, "pg_dump failed"},
		"has no room":               {"", "pg_dump", `ulimit -f 4; real "$@"`, "bytes are free"}, // as on a full disk
		"writes nothing":            {"", "pg_dump", file + `: >"$file"`, "cannot be read back"},
		"writes half, and is happy": {"", "pg_dump", file + `real "$@"; truncate -s -500 "$file"`, "cannot be read back"},
		"writes something else":     {"", "pg_dump", file + `echo "-- nothing" > "$file"`, "cannot be read back"},
		"writes half a text": {
			"FORMAT=plain", "pg_dump", file + `real "$@"; truncate -s -50 "$file"`, "cannot be read back",
		},
		"writes no end": {
			"FORMAT=plain COMPRESSION=0", "pg_dump", file + `real "$@"; sed -i '$d;/complete/d' "$file"`, "cannot be read back",
		},
		"loses a file": {"FORMAT=directory", "pg_dump", file + `real "$@"; rm "$file"/*.gz`, "cannot be read back"},
		"is too old": {
			"", "pg_dump", `if [ "$*" = --version ]; then echo "pg_dump (PostgreSQL) 9.6.2"; else real "$@"; fi`,
			"of version 9 and cannot dump",
		},
		"loses rows": {
			"VERIFY=restore", "pg_dump", `real "$@" --exclude-table-data=orders`, "other numbers of rows",
		},
		"cannot be restored": {"VERIFY=restore", "pg_restore", `exit 1`, "cannot be restored"},
		"loses roles": {
			"GLOBALS=true", "pg_dumpall", file + `real "$@"; sed -i '/complete/d' "$file"`, "roles were not dumped",
		},
		"has a name with a slash": {"NAME=../2", "true", "", "cannot be the name"},
		"has no name":             {"NAME=.hidden", "true", "", "cannot be the name"},
		"keeps too few":           {"KEEP=-1", "true", "", "must be a number"},
		"has an odd format":       {"FORMAT=tar", "true", "", "can be custom"},
		"is verified by hope":     {"VERIFY=hope", "true", "", "can be none"},
		"has an odd password":     {"CREDENTIALS=/nowhere", "true", "", "no credential password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := server.job(t)
			m.env["KEEP"] = "1"
			m.dump("1")
			if name != "is too old" {
				c.does = `if [ "$*" = --version ]; then real "$@"; exit; fi; ` + c.does
			}
			m.program(c.program, c.does)
			m.env["NAME"] = "2"
			for setting := range strings.FieldsSeq(c.env) {
				key, value, _ := strings.Cut(setting, "=")
				m.env[key] = value
			}
			if why := m.refused("dump.sh"); !strings.Contains(why, c.says) {
				t.Errorf("it says %q, want %q", why, c.says)
			}
			if got := m.dumps(); !slices.Equal(got, []string{"1"}) {
				t.Errorf("there are %q", got)
			}
			if left, _ := filepath.Glob(m.env["SOCKETS"] + "/verify.*"); len(left) > 0 {
				t.Errorf("%q is left", left)
			}
		})
	}
}

// A disk that is full is told, and older dumps stay.
func TestDumpOntoAFullDisk(t *testing.T) {
	t.Parallel()
	m := dumping(t, "postgresql")
	if err := syscall.Mount("tmpfs", m.env["BACKUPS"], "tmpfs", 0, "size=400k"); err != nil {
		t.Skip("a small disk cannot be mounted: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(m.env["BACKUPS"], syscall.MNT_DETACH) })
	m.own()
	m.dump("1")
	m.query("CREATE TABLE more AS SELECT md5(i::text) FROM generate_series(1, 50000) AS i; ALTER TABLE more OWNER TO app")
	m.env["NAME"] = "2"
	m.refuses("dump.sh", "bytes are free")
	if got := m.dumps(); !slices.Equal(got, []string{"1"}) {
		t.Errorf("there are %q", got)
	}
	m.query("DROP TABLE more")
	m.dump("3")
}

// Two that run at once both come to their end, one after the other, and neither deletes what the other writes. Nor do they
// where dumps cannot be locked.
func TestDumpsAtOnce(t *testing.T) {
	t.Parallel()
	server := dumping(t, "postgresql")
	for _, lock := range []string{"flock", "none"} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			m := server.job(t)
			m.program("pg_dump", `sleep 0.3; real "$@"`)
			if lock == "none" {
				m.program("flock", "exit 1")
			}
			var group sync.WaitGroup
			for i := range 3 {
				group.Go(func() {
					other := m.job(t)
					other.env["BACKUPS"], other.env["NAME"] = m.env["BACKUPS"], strconv.Itoa(i)
					if out, err := other.script(t.Context(), "dump.sh").CombinedOutput(); err != nil {
						t.Errorf("%v: %s", err, out)
					}
				})
			}
			group.Wait()
			if got := m.dumps(); !slices.Equal(got, []string{"0", "1", "2"}) {
				t.Errorf("there are %q", got)
			}
		})
	}
}

// Whoever is evicted leaves nothing behind at once, and whoever is killed leaves nothing for ever.
func TestDumpIsEnded(t *testing.T) {
	t.Parallel()
	m := dumping(t, "postgresql")
	m.program("pg_dump", `: >"$SOCKETS/dumping"; sleep 60`)
	for signal, left := range map[syscall.Signal]int{syscall.SIGTERM: 0, syscall.SIGKILL: 1} {
		m.env["NAME"] = "1"
		cmd := m.script(t.Context(), "dump.sh")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		m.appears(m.env["SOCKETS"] + "/dumping")
		_ = syscall.Kill(cmd.Process.Pid, signal) // as the kubelet does, which knows no other process
		began := time.Now()
		_ = cmd.Wait()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s takes %s", signal, took)
		}
		if signal == syscall.SIGKILL { // then nothing is left in a container
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		if got := m.dumps(); len(got) != left {
			t.Errorf("after %s there are %q", signal, got)
		}
		if left == 1 {
			m.program("pg_dump", `/usr/bin/env PATH="${PATH#*:}" pg_dump "$@"`)
			m.dump("2")
			if got := m.dumps(); !slices.Equal(got, []string{"2"}) {
				t.Errorf("then there are %q", got)
			}
			return
		}
	}
}

// appears waits for a file, and removes it.
func (m *member) appears(name string) {
	m.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		if err := os.Remove(name); err == nil {
			return
		} else if !errors.Is(err, os.ErrNotExist) {
			m.t.Fatal(err)
		}
	}
	m.t.Fatalf("%s does not appear", name)
}
