//go:build linux

package scripts_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var recorded = regexp.MustCompile(`"finished":\d+`)

// setAge changes the age of a dump.
func (m *member) setAge(name string, d time.Duration) {
	m.t.Helper()
	then, file := time.Now().Add(-d), m.env["BACKUPS"]+"/"+name+"/about.json"
	text, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	text = recorded.ReplaceAll(text, fmt.Appendf(nil, `"finished":%d`, then.Unix()))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Chtimes(file, then, then); err != nil {
		m.t.Fatal(err)
	}
}

// has checks the directory of dumps.
func (m *member) has(want ...string) {
	m.t.Helper()
	slices.Sort(want)
	if got := m.dumps(); !slices.Equal(got, want) {
		m.t.Errorf("there are %q, want %q", got, want)
	}
}

// Dumps are sorted by the finish time in their description, or by that of the file without one. Directories with an invalid
// name do not count.
func TestDumpsSortByAge(t *testing.T) {
	t.Parallel()
	m := newPrimary(t, "postgresql").job(t)
	now := time.Now().Unix()
	says := func(seconds int64) string { return fmt.Sprintf(`{"name":"x","finished":%d,"seconds":1}`, seconds) }
	for name, text := range map[string]string{
		"shop-db-backup-29000000":   says(now - 100),
		"shop-db-last-202601010000": says(now - 300),
		"nightly-202601010000":      says(now - 50),
		"20260131T020000Z":          "{}",
		"of-old":                    `{"finished":"soon"}`,
		"1":                         says(now - 400),
		"same-1":                    says(now - 500),
		"same-2":                    says(now - 500),
		"short":                     says(9),
		"shop-db-backup-1\nshort":   says(now),
		"-rf":                       says(now),
		"a b":                       says(now),
		"ö":                         says(now),
		strings.Repeat("n", 101):    says(now),
	} {
		m.dumped(name+"/about.json", text)
		m.dumped(name+"/x", "newer")
	}
	m.setAge("20260131T020000Z", 200*time.Second)
	m.setAge("of-old", 75*time.Second)
	want := []string{
		"nightly-202601010000", "of-old", "shop-db-backup-29000000", "20260131T020000Z", "shop-db-last-202601010000", "1",
		"same-2", "same-1", "short",
	}
	if got := m.runForResult("prune.sh"); !slices.Equal(got.Left, want) {
		t.Errorf("the result is %q, want %q", got.Left, want)
	}
	if got := m.dumps(); len(got) != 14 {
		t.Errorf("there are %q", got)
	}
}

// Without a name, the dump that was finished last is restored.
func TestNewestDumpIsRestored(t *testing.T) {
	t.Parallel()
	for engine, sum := range map[string]string{"postgresql": checksum, "mariadb": checksumMariaDB} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			server := newDumpJob(t, engine)
			m := server.job(t)
			m.dump("shop-db-last-202601010000")
			m.setAge("shop-db-last-202601010000", time.Hour)
			m.query("INSERT INTO orders VALUES (5000, 'late')")
			m.dump("a-202601020000")
			m.dumped("a-202601020000.hold", "")
			for i := range 2000 { // longer than the buffer of a pipe
				dir := fmt.Sprintf("%s/shop-db-backup-%060d", m.env["BACKUPS"], i)
				err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(dir+"/about.json", []byte(`{"finished":1}`), 0o644))
				if err != nil {
					t.Fatal(err)
				}
			}
			other := m.into(t, "other", "")
			other.restores("a-202601020000", sum, m.query(sum))
		})
	}
}

// Retention deletes only older dumps of the same series, by finish time.
func TestRetentionKeepsOtherSeries(t *testing.T) {
	t.Parallel()
	m := newDumpJob(t, "postgresql")
	m.env["KEEP"], m.env["KEEP_FOR"] = "2", "86400"
	others := []string{
		"shop-db-last-202601010000", "nightly-202601010000", "nightly-202601020000", "zzz", "1", "shop-db-backup",
		"shop-db-backup-x-1", "shop-db-backupp-1", "shop-db-backup_1", "SHOP-db-backup-1", "-rf", "a b", "odd\nshop-db-backup-9",
		"shop-db-backup-7\n", "*-1",
	}
	for _, name := range others {
		m.dumped(name+"/about.json", "{}")
		m.setAge(name, 100*time.Hour)
	}
	hour := time.Hour
	for _, name := range []string{"8", "9", "10"} {
		m.dump("shop-db-backup-" + name)
		hour -= time.Minute
		m.setAge("shop-db-backup-"+name, hour)
	}
	m.has(append(others, "shop-db-backup-9", "shop-db-backup-10")...)
	m.dumped("shop-db-backup-9.hold", "")
	m.dump("shop-db-backup-11")
	m.has(append(others, "shop-db-backup-9", "shop-db-backup-9.hold", "shop-db-backup-10", "shop-db-backup-11")...)
	for _, name := range []string{"9", "10", "11"} {
		m.setAge("shop-db-backup-"+name, 48*time.Hour)
	}
	m.dump("shop-db-backup-12")
	m.has(append(others, "shop-db-backup-9", "shop-db-backup-9.hold", "shop-db-backup-12")...)
	m.setAge("shop-db-backup-12", 49*time.Hour)
	m.dump("shop-db-backup-12") // repeated, as by a Job that is retried
	m.has(append(others, "shop-db-backup-9", "shop-db-backup-9.hold", "shop-db-backup-12")...)
	m.dump("2") // names without a hyphen are a series as well
	m.has(append(slices.DeleteFunc(others, func(name string) bool { return name == "zzz" || name == "1" }),
		"shop-db-backup-9", "shop-db-backup-9.hold", "shop-db-backup-12", "2")...)
}

// A dump belongs to the series that made it, even if its name is one of another series.
func TestSeriesAreNotNames(t *testing.T) {
	t.Parallel()
	m := newDumpJob(t, "postgresql")
	m.env["KEEP"] = "1"
	m.dumped("x-db-backup-1/about.json", `{"finished":1}`) // without a series
	dump := func(series, name string) {
		t.Helper()
		m.env["SERIES"] = series
		m.dump(name)
		m.setAge(name, time.Hour)
	}
	dump("dbsnapshot/x-db-backup", "x-db-backup-202611240200")
	dump("database/x", "x-db-backup-29000001")
	dump("database/x", "x-db-backup-29000002")
	m.has("x-db-backup-1", "x-db-backup-202611240200", "x-db-backup-29000002")
	dump("dbsnapshot/x-db-backup", "x-db-backup-202611250200")
	m.has("x-db-backup-1", "x-db-backup-202611250200", "x-db-backup-29000002")
	dump("", "x-db-backup-2")
	m.has("x-db-backup-2", "x-db-backup-202611250200", "x-db-backup-29000002")
	dump("x-db-backup", "y-db-backup-1")
	m.has("y-db-backup-1", "x-db-backup-202611250200", "x-db-backup-29000002")
	m.set("NAME=a SERIES=\"")
	m.refuses("dump.sh", "can have letters")
}

// A dump of a node whose clock was ahead is the newest only if there is no other one.
func TestDumpFromTheFutureIsNotTheNewest(t *testing.T) {
	t.Parallel()
	m := newPrimary(t, "postgresql").job(t)
	for _, dump := range []struct {
		name, want string
		ahead      time.Duration
	}{
		{"later", "later", 48 * time.Hour},
		{"late", "later", 24 * time.Hour},
		{"old", "old", -24 * time.Hour},
		{"new", "new", -time.Hour},
		{"now", "now", 3 * time.Minute},
		{"soon", "now", 10 * time.Minute},
	} {
		m.dumped(dump.name+"/about.json", fmt.Sprintf(`{"finished":%d}`, time.Now().Add(dump.ahead).Unix()))
		got := m.mustRun("bash", "-c", `set -euo pipefail; . "$0/common.sh"; . "$0/dumps.sh"; newest`, m.dir+"/scripts")
		if got != dump.want {
			t.Errorf("with %s the newest is %s, want %s", dump.name, got, dump.want)
		}
	}
}
