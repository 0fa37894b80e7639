//go:build linux

package scripts_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newReplica returns an initialized member with an address of its own, and the port of all members.
func (m *member) newReplica(ordinal string) *member {
	m.t.Helper()
	r := m.replica(int(ordinal[0] - '0'))
	delete(r.env, "PORT")
	r.env["LISTEN"], r.env["CONNECT_RETRY"] = "127.0.1."+ordinal, "1"
	r.mustRun("init.sh")
	return r
}

// loseVolume stops the primary and deletes its data. A new one is rejected from then on.
func (m *member) loseVolume() {
	m.t.Helper()
	m.running.stop()
	if err := os.RemoveAll(m.env["PGDATA"]); err != nil {
		m.t.Fatal(err)
	}
	m.write("config/begun", "true")
	m.env["BEGUN"], m.env["RECOVER_FROM"] = filepath.Join(m.dir, "config", "begun"), filepath.Join(m.dir, "config", "recover")
}

// hasNoData checks that there is no data directory.
func (m *member) hasNoData() {
	m.t.Helper()
	if _, err := os.Stat(m.env["PGDATA"]); err == nil {
		m.t.Error("there is a data directory")
	}
}

// notReady waits for an unready replica and checks its message.
func (m *member) notReady(why string) {
	m.t.Helper()
	var out []byte
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		var err error
		out, err = m.script(m.t.Context(), "probe.sh", "ready").CombinedOutput()
		if err != nil && strings.Contains(string(out), why) {
			return
		}
	}
	m.t.Fatalf("it says %q, want %q", out, why)
}

// orders inserts rows with these numbers.
func orders(engine, first, last string) string {
	if engine == "postgresql" {
		return "INSERT INTO orders SELECT i, 'new' FROM generate_series(" + first + ", " + last + ") AS i"
	}
	return "INSERT INTO orders SELECT seq, 'new' FROM seq_" + first + "_to_" + last
}

// The data of a lost primary are those of the replica that the user names, with all commits that the replica has. The other
// replicas follow it, also one that has less.
func TestRecoverFromMember(t *testing.T) {
	t.Parallel()
	for engine, sum := range map[string]string{"postgresql": checksum, "mariadb": checksumMariaDB} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			primary := startPrimary(t, engine)
			primary.login("app", credentials["password"], fillWith[engine])
			primary.query("DELETE FROM orders WHERE id = 1000")
			one, two := primary.newReplica("1"), primary.newReplica("2")
			one.start()
			two.start()
			two.running.stop()
			primary.query(orders(engine, "2000", "2009"))
			if engine == "mariadb" {
				primary.query("CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY DO DELETE FROM orders WHERE id = 0")
			}
			want := primary.query(sum)
			one.eventually(sum, want)
			if engine == "mariadb" {
				one.eventually("SELECT status FROM information_schema.events", "SLAVESIDE_DISABLED")
			}
			primary.loseVolume()
			primary.refuses("init.sh", "annotate the Database with techoral.com/recover-from-member=<number of a replica>")
			primary.hasNoData()
			two.launch()
			primary.write("config/recover", "127.0.1.1\n")
			primary.interrupted("init.sh", 2)
			primary.start()
			if got := primary.query(sum); got != want || !strings.HasPrefix(got, "1009 ") {
				t.Errorf("it has %s, want %s", got, want)
			}
			if engine == "mariadb" {
				primary.eventually("SELECT status FROM information_schema.events", "ENABLED")
			}
			for _, n := range []string{"3", "4"} {
				if got := primary.login("app", credentials["password"], orders(engine, n+"000", n+"009")); got != "" {
					t.Fatal(got)
				}
				want = primary.query(sum)
				one.eventually(sum, want)
				two.eventually(sum, want)
				primary.restarts((*server).kill)
				one.restarts((*server).stop)
			}
			three := primary.newReplica("3")
			three.start()
			three.eventually(sum, want)
		})
	}
}

// A replica that has more than the new primary does not follow it, and its message says why.
func TestRecoverFromMemberWithLess(t *testing.T) {
	t.Parallel()
	for engine, sum := range map[string]string{"postgresql": checksum, "mariadb": checksumMariaDB} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			primary := startPrimary(t, engine)
			primary.login("app", credentials["password"], fillWith[engine])
			one, two := primary.newReplica("1"), primary.newReplica("2")
			one.start()
			two.start()
			one.running.stop()
			primary.query(orders(engine, "2000", "2009"))
			more := primary.query(sum)
			two.eventually(sum, more)
			primary.loseVolume()
			one.launch()
			primary.write("config/recover", "127.0.1.1")
			primary.mustRun("init.sh")
			primary.start()
			if got := primary.query("SELECT COUNT(*) FROM orders"); got != "1000" {
				t.Errorf("it has %s", got)
			}
			primary.query(orders(engine, "5000", "5999"))
			one.eventually("SELECT COUNT(*) FROM orders", "2000")
			const why = "has transactions that the primary does not have"
			two.notReady(why)
			two.probes(map[string]bool{"live": true})
			if got := two.query(sum); got != more {
				t.Errorf("the replica has %s, want %s", got, more)
			}
			two.running.stop()
			primary.query(orders(engine, "6000", "6999"))
			if engine == "postgresql" {
				two.refuses("run.sh", why)
				return
			}
			two.launch()
			two.notReady(why)
		})
	}
}

// What is no copy of the lost primary is not recovered from, and a signal ends the wait for a replica.
func TestRecoverFromMemberIsRefused(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"postgresql", "mariadb"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			primary := startPrimary(t, engine)
			primary.login("app", credentials["password"], fillWith[engine])
			lost := primary.replica(5)
			lost.env["MEMBER"], lost.env["RECOVER_FROM"] = "0", filepath.Join(lost.dir, "config", "recover")
			lost.write("config/recover", "127.0.0.1")
			lost.refuses("init.sh", "127.0.0.1 is no replica")
			lost.hasNoData()
			if engine == "mariadb" {
				one := primary.newReplica("1")
				one.start()
				one.query("INSERT INTO orders VALUES (5000, 'only here')")
				lost.write("config/recover", "127.0.1.1")
				lost.refuses("init.sh", "127.0.1.1 has writes of its own")
				lost.hasNoData()
			}
			lost.write("config/recover", "127.0.1.9")
			cmd, log := lost.script(t.Context(), "init.sh"), &logs{}
			cmd.Stderr = log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(30 * time.Second); !strings.Contains(log.String(), "trying again"); {
				if time.Now().After(deadline) {
					t.Fatalf("it does not try again: %s", log)
				}
				<-time.After(20 * time.Millisecond)
			}
			_ = syscall.Kill(cmd.Process.Pid, syscall.SIGTERM)
			if err := cmd.Wait(); err == nil {
				t.Error("it succeeds without a replica")
			}
			lost.hasNoData()
		})
	}
}

// A replica that needs a log that the primary no longer has is not ready, and says what to do.
func TestReplicaWithoutLog(t *testing.T) {
	t.Parallel()
	for engine, sql := range map[string][]string{
		"postgresql": {"SELECT pg_switch_wal()", "CHECKPOINT"},
		"mariadb":    {"FLUSH BINARY LOGS", "PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY"},
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			primary := newPrimary(t, engine)
			primary.write("config/more.conf", "wal_keep_size = 0\n")
			primary.mustRun("init.sh")
			primary.start()
			primary.login("app", credentials["password"], fillWith[engine])
			one := primary.newReplica("1")
			one.start()
			one.running.stop()
			for _, n := range []string{"2", "3", "4"} {
				primary.query(orders(engine, n+"000", n+"009"))
				for _, sql := range sql {
					primary.query(sql)
				}
			}
			for engine == "mariadb" && strings.Contains(primary.query("SHOW BINARY LOGS"), "\n") { // a connection may use one still
				primary.query(sql[1])
			}
			one.launch()
			one.notReady("the primary does not have the log any more that it needs: delete its claim and pod")
			one.probes(map[string]bool{"live": true})
		})
	}
}
