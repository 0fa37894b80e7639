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

// result is the termination message of a dump, a restore or prune.sh.
type result struct {
	Name, Location, SHA256, ServerVersion, Verified string
	SizeBytes                                       int64
	Seconds                                         *int
	Left, Held                                      []string
}

// newDumpJob returns the first job of a member with a table of orders.
func newDumpJob(t *testing.T, engine string) *member {
	t.Helper()
	m := startPrimary(t, engine)
	m.login("app", credentials["password"], fillWith[engine])
	m.env["HOST"], m.env["PORT"] = "127.0.0.1", m.port()
	return m.job(t)
}

// jobs counts the jobs: each has another ordinal.
var jobs atomic.Int64

// job returns a pod that dumps or restores, with a directory of dumps of its own.
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
	j.chownFiles()
	return j
}

// dumped writes a file to the directory of dumps.
func (m *member) dumped(name, text string) { m.write(strconv.Itoa(m.ordinal)+"/backups/"+name, text) }

// runForResult runs a script and returns its result.
func (m *member) runForResult(script string) (got result) {
	m.t.Helper()
	m.mustRun(script)
	text := m.terminationLog()
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		m.t.Fatalf("%v: %s", err, text)
	}
	return got
}

// dump makes a dump and returns its result.
func (m *member) dump(name string) result {
	m.t.Helper()
	m.env["NAME"] = name
	return m.runForResult("dump.sh")
}

// dumpTo makes a dump and checks its result, with this location below its name.
func (m *member) dumpTo(name, location string) result {
	m.t.Helper()
	got := m.dump(name)
	if got.Name != name || got.Location != name+location || len(got.SHA256) != 64 || got.SizeBytes < 1000 ||
		!strings.HasPrefix(got.ServerVersion, "1") || got.Seconds == nil {
		m.t.Errorf("the result is %+v", got)
	}
	return got
}

// restores runs a restore of the named dump and compares the checksum of the data.
func (m *member) restores(name, checksum, want string) {
	m.t.Helper()
	if done := m.runForResult("restore.sh"); done.Name != name || done.Seconds == nil {
		m.t.Errorf("the result is %+v", done)
	}
	if m.sockets == "" && m.running.home != m.home() {
		m.start()
	}
	if got := m.query(checksum); got != want {
		m.t.Errorf("%s was dumped, and %s restored", want, got)
	}
}

// dumps lists the directory of dumps, without the lock.
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

// Retention keeps the newest dumps and those on hold, and counts only complete ones.
func TestRetention(t *testing.T) {
	t.Parallel()
	m := newDumpJob(t, "postgresql")
	m.dumped(".partial.aaaaaa/app.dump", "interrupted")
	m.dumped(".deleted.aaaaaa/0/about.json", "interrupted")
	m.dumped("9/precious", "foreign")
	for _, name := range []string{"1", "2", "3"} {
		m.dump(name)
	}
	m.dumped("2.hold", "")
	for _, name := range []string{"4", "5", "6"} {
		m.dump(name)
	}
	want := []string{"2", "2.hold", "4", "5", "6", "9"}
	first := m.dump("6") // repeated, as by a Job that is retried
	if got := m.dumps(); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	if again := m.dump("6"); again.SHA256 != first.SHA256 || again.SizeBytes != first.SizeBytes {
		t.Errorf("the results are %+v and %+v", first, again)
	}
	m.env["KEEP"] = "0"
	m.dump("7")
	if got, want := m.dumps(), []string{"2", "2.hold", "4", "5", "6", "7", "9"}; !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	m.env["KEEP_FOR"] = "3600"
	const long = 2 * time.Hour
	for name, ago := range map[string]time.Duration{"4": long, "5": time.Minute, "6": long, "7": long} {
		m.setAge(name, ago)
	}
	m.dump("1") // the newest dump, with the first name
	if got, want := m.dumps(), []string{"1", "2", "2.hold", "5", "9"}; !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	m.env["NAMES"], m.env["LAST"] = "2 5 not-there", "gone" // without LAST nothing may be deleted
	if got := m.runForResult("prune.sh"); !slices.Contains(got.Left, "5") {
		t.Errorf("the result is %+v", got)
	}
	m.env["LAST"] = "1"
	got := m.runForResult("prune.sh")
	if !slices.Equal(got.Left, []string{"1", "2"}) || !slices.Equal(got.Held, []string{"2"}) {
		t.Errorf("the result is %+v", got)
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

// A termination message is limited to 4096 bytes, regardless of the number of dumps.
func TestLongDumpListIsTruncated(t *testing.T) {
	t.Parallel()
	m := newPrimary(t, "postgresql").job(t)
	for i := range 100 {
		m.dumped(""+strings.Repeat("n", 60)+strconv.Itoa(1000+i)+"/about.json", "{}")
	}
	got := m.runForResult("prune.sh")
	if len(m.terminationLog()) > 4096 || len(got.Left) < 50 || !strings.HasSuffix(got.Left[0], "1099") {
		t.Errorf("the result is %s", m.terminationLog())
	}
}

// A corrupt dump never gets a name: the older dumps stay, and nothing is left behind.
func TestCorruptDumps(t *testing.T) {
	t.Parallel()
	server := newDumpJob(t, "postgresql")
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

// limitBackups mounts an empty file system of this size over the directory of the dumps. It skips the test if the process
// may not mount, because a full disk has no other stand-in.
func (m *member) limitBackups(size string) {
	m.t.Helper()
	err := syscall.Mount("tmpfs", m.env["BACKUPS"], "tmpfs", 0, "size="+size)
	switch {
	case errors.Is(err, syscall.EPERM):
		m.t.Skip("mounting a small disk requires the capability CAP_SYS_ADMIN")
	case err != nil:
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = syscall.Unmount(m.env["BACKUPS"], syscall.MNT_DETACH) })
}

// A full disk is reported, and older dumps stay.
func TestDumpOnFullDisk(t *testing.T) {
	t.Parallel()
	m := newDumpJob(t, "postgresql")
	m.limitBackups("400k")
	m.chownFiles()
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

// When the directory is full, the oldest dump of the series makes room for the next one. The last one that was verified,
// those on hold and other series stay.
func TestDumpMakesRoom(t *testing.T) {
	t.Parallel()
	m := newDumpJob(t, "postgresql")
	m.query("CREATE TABLE more AS SELECT md5(i::text) FROM generate_series(1, 50000) AS i; ALTER TABLE more OWNER TO app")
	m.set("COMPRESSION=0 KEEP=7")
	m.limitBackups(strconv.FormatInt(5*m.dump("size").SizeBytes/2, 10))
	m.dumped("other-0/about.json", `{"finished":1,"verified":"list"}`)
	m.dump("night-1")
	m.dump("night-2")
	m.setAge("night-1", 48*time.Hour)
	m.setAge("night-2", 24*time.Hour)
	m.dump("night-3")
	m.has("night-2", "night-3", "other-0")
	m.dumped("night-2.hold", "")
	m.dump("night-4")
	m.has("night-2", "night-2.hold", "night-4", "other-0")
	refuses := func(why string) {
		t.Helper()
		m.env["NAME"] = "night-5"
		m.refuses("dump.sh", why)
		m.has("night-2", "night-2.hold", "night-4", "other-0")
	}
	m.dumped("night-4.hold", "")
	m.env["NAME"] = "night-5"
	m.refuses("dump.sh", "bytes are free")
	m.has("night-2", "night-2.hold", "night-4", "night-4.hold", "other-0")
	m.mustRun("rm", m.env["BACKUPS"]+"/night-4.hold")
	about := m.read(strconv.Itoa(m.ordinal) + "/backups/night-4/about.json")
	m.dumped("night-4/about.json", strings.ReplaceAll(about, `"list"`, `"none"`))
	refuses("bytes are free")
	m.dumped("night-4/about.json", about)
	path := m.env["PATH"]
	m.program("pg_dump", `if [ "$*" = --version ]; then real "$@"; exit; fi
		for a; do case $a in --file=*) echo x >"${a#--file=}" ;; esac; done; exit 1`)
	refuses("pg_dump failed") // for another reason
	m.env["PATH"] = path
	m.dump("night-5")
	m.has("night-2", "night-2.hold", "night-5", "other-0")
}

// Two concurrent dumps both succeed, one after the other, and do not delete each other's files. The same holds without
// locks.
func TestConcurrentDumps(t *testing.T) {
	t.Parallel()
	server := newDumpJob(t, "postgresql")
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

// An evicted dump leaves nothing behind. The files of a killed one are deleted by a later dump.
func TestInterruptedDump(t *testing.T) {
	t.Parallel()
	m := newDumpJob(t, "postgresql")
	m.program("pg_dump", `: >"$SOCKETS/dumping"; sleep 60`)
	for signal, left := range map[syscall.Signal]int{syscall.SIGTERM: 0, syscall.SIGKILL: 1} {
		m.env["NAME"] = "1"
		cmd := m.script(t.Context(), "dump.sh")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		m.appears(m.env["SOCKETS"] + "/dumping")
		_ = syscall.Kill(cmd.Process.Pid, signal) // as the kubelet does; it signals only this process
		began := time.Now()
		_ = cmd.Wait()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s takes %s", signal, took)
		}
		if signal == syscall.SIGKILL { // the kernel kills the rest of a container
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
