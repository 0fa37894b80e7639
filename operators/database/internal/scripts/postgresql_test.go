//go:build linux

package scripts_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

const checksum = "SELECT count(*) || ' ' || coalesce(md5(string_agg(id || ':' || text, ',' ORDER BY id)), '') FROM orders"

// fill creates a table of 1,000 orders.
const fill = "CREATE TABLE orders (id int PRIMARY KEY, text text); " +
	"INSERT INTO orders SELECT i, md5(i::text) FROM generate_series(1, 1000) AS i"

// fillWith has the statements of fill for each engine.
var fillWith = map[string]string{"postgresql": fill, "mariadb": fillMariaDB, "mysql": fillMariaDB}

// A replica copies the primary and follows it, over the network and with any characters in passwords.
func TestReplicaFollowsThePrimary(t *testing.T) {
	t.Parallel()
	primary := startPrimary(t, "postgresql")
	if got := primary.query("SHOW max_connections"); got != "42" {
		t.Errorf("max_connections is %s: the user's settings do not count", got)
	}
	primary.login("app", credentials["password"], fill)
	replica := primary.replica(1)
	replica.mustRun("init.sh")
	replica.start()
	for i := range 20 {
		first := 2000 + 50*i
		if got := primary.login("app", credentials["password"],
			fmt.Sprintf("INSERT INTO orders SELECT i, 'new' FROM generate_series(%d, %d) AS i", first, first+49)); got != "" {
			t.Fatal(got)
		}
	}
	replica.eventually(checksum, primary.query(checksum))
	got := replica.login("app", credentials["password"], "SELECT count(*), pg_is_in_recovery() FROM orders")
	if got != "2000|t" {
		t.Errorf("the replica has %s", got)
	}
	if got := primary.query("SELECT application_name || ' ' || state FROM pg_stat_replication"); got != "member_1 streaming" {
		t.Errorf("the primary knows of %q", got)
	}
}

// settings selects the settings that must not be lower on a replica.
const settings = "SELECT string_agg(setting, ' ' ORDER BY name) FROM pg_settings WHERE name IN ('max_connections', " +
	"'max_worker_processes', 'max_wal_senders', 'max_prepared_transactions', 'max_locks_per_transaction')"

// configured writes these settings, in the order of their names.
func (m *member) configured(connections, locks, prepared, senders, workers int) {
	m.write("config/more.conf", fmt.Sprintf("max_connections = %d\nmax_locks_per_transaction = %d\n"+
		"max_prepared_transactions = %d\nmax_wal_senders = %d\nmax_worker_processes = %d\n",
		connections, locks, prepared, senders, workers))
}

// Lowered settings take effect on a replica, which restarts first, after the primary has them. Raised ones take effect at
// once.
func TestLoweredSettings(t *testing.T) {
	t.Parallel()
	primary := newPrimary(t, "postgresql")
	primary.configured(200, 128, 10, 12, 9)
	primary.mustRun("init.sh")
	primary.start()
	primary.query(fill)
	replica := primary.replica(1)
	replica.mustRun("init.sh")
	replica.start()
	restarted := func(m *member, want string) {
		t.Helper()
		m.restarts((*server).stop)
		if got := m.query(settings); got != want {
			t.Errorf("member %d has %s, want %s", m.ordinal, got, want)
		}
		replica.eventually("SELECT status FROM pg_stat_wal_receiver", "streaming")
		primary.query("INSERT INTO orders SELECT max(id) + 1, 'new' FROM orders")
		replica.eventually(checksum, primary.query(checksum))
	}
	primary.configured(50, 64, 0, 13, 8) // and raise one
	restarted(replica, "200 128 10 13 9")
	restarted(replica, "200 128 10 13 9") // repeated restart
	restarted(primary, "50 64 0 13 8")
	restarted(replica, "50 64 0 13 8")
	primary.configured(60, 70, 5, 14, 10)
	restarted(replica, "60 70 5 14 10")
	restarted(primary, "60 70 5 14 10")
	replica.running.stop()
	primary.write("config/more.conf", "max_connections = many\n")
	s := replica.launch()
	<-s.ended
	if log := s.log.String(); !strings.Contains(log, "max_connections") {
		t.Errorf("an invalid setting is not reported: %s", log)
	}
}

// No login without the correct password, not even from localhost, and no password in a log.
func TestPasswords(t *testing.T) {
	t.Parallel()
	m := newPrimary(t, "postgresql")
	m.env["DATABASE"], m.env["DATABASE_USER"] = `o'rd"ers \ö`, `o'wn"er \ö`
	m.mustRun("init.sh")
	s := m.start()
	for user, password := range map[string]string{
		m.env["DATABASE_USER"]: "", "postgres": "", "replication": credentials["password"],
	} {
		if got := m.login(user, password, "SELECT 1"); got == "1" {
			t.Errorf("%s gets in with %q", user, password)
		}
	}
	for user, credential := range map[string]string{
		m.env["DATABASE_USER"]: "password", "database_dump": "dump-password",
	} {
		if got := m.login(user, credentials[credential], "SELECT current_user"); got != user {
			t.Errorf("%s does not get in: %s", user, got)
		}
	}
	if got := m.login(m.env["DATABASE_USER"], credentials["password"], "CREATE TABLE t (); SELECT current_database()"); got !=
		m.env["DATABASE"] {
		t.Errorf("the owner cannot work: %s", got)
	}
	log := s.logged(t, "CREATE TABLE t") // the user asked for all statements
	if strings.Contains(log, "PASSWORD") {
		t.Errorf("the log has a password:\n%s", log)
	}
}

// A changed password takes effect at the next start, also in the data of another Database, and for the replicas.
func TestPasswordRotation(t *testing.T) {
	t.Parallel()
	primary := startPrimary(t, "postgresql")
	primary.query(fill)
	replica := primary.replica(1)
	replica.mustRun("init.sh")
	follower := replica.start()
	for name := range credentials {
		primary.write("credentials/"+name, "new "+name)
	}
	primary.query("DROP ROLE replication")
	primary.env["DATABASE"], primary.env["DATABASE_USER"] = "other", "owner"
	for range 2 {
		primary.restarts((*server).kill)
		for user, password := range map[string]string{
			"owner": "new password", "database_dump": "new dump-password", "replication": "new replication-password",
		} {
			if got := primary.login(user, password, "SELECT current_user"); got != user {
				t.Errorf("%s does not get in: %s", user, got)
			}
		}
		if got := primary.login("database_dump", credentials["dump-password"], "SELECT 1"); got == "1" {
			t.Error("the old password is good still")
		}
	}
	// One replica gets the new password by its probe, and one by a restart.
	primary.env["DATABASE"] = "app"
	primary.query("INSERT INTO orders VALUES (5000, 'after')")
	for want := primary.query(checksum); replica.query(checksum) != want; {
		replica.becomes(follower, "ready", true)
	}
	follower.stop()
	primary.query("INSERT INTO orders VALUES (5001, 'after')")
	replica.start()
	replica.eventually(checksum, primary.query(checksum))
}

// After interruptions while the passwords are set, the next start sets them.
func TestPasswordRotationIsInterrupted(t *testing.T) {
	t.Parallel()
	m := startPrimary(t, "postgresql")
	m.login("app", credentials["password"], fill)
	m.running.kill()
	m.write("credentials/password", "new")
	for _, after := range []int{20, 60, 100, 150, 200, 300} {
		s := m.launch()
		<-time.After(time.Duration(after) * time.Millisecond)
		s.kill()
	}
	m.start()
	if got := m.login("app", "new", "SELECT count(*) FROM orders"); got != "1000" {
		t.Errorf("it has %s", got)
	}
}

// After any interruptions the data directory is complete or missing.
func TestInitIsInterrupted(t *testing.T) {
	t.Parallel()
	m := newPrimary(t, "postgresql")
	m.interrupted("init.sh", 2)
	m.start()
	if got := m.login("app", credentials["password"], "SELECT 1"); got != "1" {
		t.Errorf("the owner cannot work: %s", got)
	}
}

// Unsuitable data are neither started nor overwritten, and the message has the reason.
func TestRejections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, text   string
		script, says string
	}{
		"data of another major version": {"0/data/PG_VERSION", "9\n", "init.sh", "the data are of PostgreSQL 9 and the image is"},
		"the same when it starts":       {"0/data/PG_VERSION", "9\n", "run.sh", "bootstrapFrom"},
		"foreign files":                 {"0/data/precious", "x", "init.sh", "nothing is put over it"},
		"no data":                       {"config/other.conf", "", "run.sh", "was not initialized"},
		"no password":                   {"credentials/dump-password", "", "run.sh", "dump-password is empty"},
		"a password of two lines":       {"credentials/dump-password", "a\nb", "run.sh", "more than one line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newPrimary(t, "postgresql")
			if strings.HasPrefix(c.file, "credentials") {
				m.mustRun("init.sh")
			}
			m.write(c.file, c.text)
			if why := m.refused(c.script); !strings.Contains(why, c.says) {
				t.Errorf("it says %q, want %q", why, c.says)
			}
			if got := m.read(c.file); got != c.text {
				t.Errorf("the file has %q", got)
			}
		})
	}
}

// A promoted replica is rejected.
func TestPromotedReplicaIsRejected(t *testing.T) {
	t.Parallel()
	primary := startPrimary(t, "postgresql")
	primary.query(fill)
	replica := primary.replica(1)
	replica.mustRun("init.sh")
	s := replica.start()
	replica.query("SELECT pg_promote()")
	replica.query("INSERT INTO orders VALUES (5000, 'only here')")
	s.stop()
	replica.refuses("run.sh", "member 1 was promoted")
	replica.env["MEMBER"] = "0"
	replica.write("1/data/standby.signal", "")
	replica.refuses("run.sh", "are those of a replica")
}

// The probes neither restart a server without benefit nor send connections to an unready one.
func TestProbes(t *testing.T) {
	t.Parallel()
	primary := newPrimary(t, "postgresql")
	primary.mustRun("init.sh")
	primary.probes(map[string]bool{"startup": true, "live": true, "ready": false}) // being prepared
	primary.start()
	primary.query(fill)
	primary.probes(map[string]bool{"startup": true, "live": true, "ready": true})

	replica := primary.replica(1)
	replica.mustRun("init.sh")
	primary.running.stop()
	s := replica.launch()
	replica.becomes(s, "live", true)
	replica.probes(map[string]bool{"startup": true, "live": true, "ready": false}) // it has never followed
	primary.start()
	replica.becomes(s, "ready", true)
	primary.running.stop()
	replica.eventually("SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'", "0")
	replica.probes(map[string]bool{"live": true, "ready": true}) // for GRACE seconds
	s.stop()
	s = replica.launch()
	replica.becomes(s, "ready", true) // the same after a restart
	replica.env["GRACE"] = "0"
	replica.probes(map[string]bool{"live": true, "ready": false})
	primary.start()
	replica.becomes(s, "ready", true)
	replica.query("SELECT pg_wal_replay_pause()")
	replica.becomes(s, "ready", false)
	replica.query("SELECT pg_wal_replay_resume()")
	replica.becomes(s, "ready", true)

	full := primary.script(t.Context(), "bash", "-c", `for i in {1..41}; do psql --quiet --dbname="host=$SOCKETS port=`+
		primary.port()+` user=postgres dbname=app" --command="SELECT pg_sleep(60)" & done; wait`)
	if err := full.Start(); err != nil {
		t.Fatal(err)
	}
	for got := ""; !strings.Contains(got, "too many clients"); {
		got = primary.login("app", credentials["password"], "SELECT 1")
		if strings.Contains(got, "reserved") {
			break
		}
	}
	primary.probes(map[string]bool{"live": true, "ready": true})
	_ = syscall.Kill(-full.Process.Pid, syscall.SIGKILL)
	_ = full.Wait()

	_ = syscall.Kill(-primary.running.pid, syscall.SIGSTOP)
	primary.probes(map[string]bool{"live": false, "ready": false})
	_ = syscall.Kill(-primary.running.pid, syscall.SIGCONT)

	_ = syscall.Kill(primary.running.pid, syscall.SIGTERM) // it waits for these sessions, and rejects others
	primary.becomes(primary.running, "ready", false)
	primary.probes(map[string]bool{"startup": true, "live": true})
}

// Setting the passwords may take as long as crash recovery. The probes wait for it, and a deleted pod stops at once.
func TestSlowPasswordRotation(t *testing.T) {
	t.Parallel()
	m := startPrimary(t, "postgresql")
	m.running.kill() // leaves its socket
	m.program("postgres", `[ "$1" != --single ] || { : >"$SOCKETS/recovers"; sleep 60; }; real "$@"`)
	s := m.launch()
	m.appears(m.env["SOCKETS"] + "/recovers")
	m.probes(map[string]bool{"startup": true, "live": true, "ready": false})
	began := time.Now()
	_ = syscall.Kill(s.pid, syscall.SIGTERM)
	<-s.ended
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it ends after %s", took)
	}
	m.env["PATH"] = strings.TrimPrefix(m.env["PATH"], m.home()+"/bin:")
	if err := os.Chmod(m.env["PGDATA"], 0o2770); err != nil { // as on a volume with fsGroup
		t.Fatal(err)
	}
	m.start()
}

// The superuser connects over the socket only. While a primary is closed, only dumps connect, and nothing writes.
func TestClosedPrimary(t *testing.T) {
	t.Parallel()
	m := newPrimary(t, "postgresql")
	m.mustRun("init.sh")
	m.start()
	m.login("app", credentials["password"], fill)
	m.query("ALTER ROLE postgres PASSWORD 'super'; CREATE ROLE other LOGIN PASSWORD 'other'")
	want := m.query(checksum)
	logins := func(want map[string]string) {
		t.Helper()
		for _, user := range []string{"app", "other", "database_dump", "replication", "postgres"} {
			password := map[string]string{
				"app": credentials["password"], "other": "other", "database_dump": credentials["dump-password"],
				"replication": credentials["replication-password"], "postgres": "super",
			}[user]
			got := m.login(user, password, "SELECT current_user || ' ' || current_setting('transaction_read_only')")
			if want[user] == "" && strings.Contains(got, "pg_hba.conf rejects") || got == want[user] {
				continue
			}
			if want[user] != "" || !strings.Contains(got, "no pg_hba.conf entry") {
				t.Errorf("%s gets %q, want %q", user, got, want[user])
			}
		}
	}
	open := map[string]string{
		"app": "app off", "other": "other off", "database_dump": "database_dump off", "replication": "replication off",
	}
	logins(open)
	m.env["CLOSED"] = "true"
	m.restarts((*server).stop)
	logins(map[string]string{"database_dump": "database_dump on"})
	if out, err := m.try("CREATE TABLE t ()"); err == nil || !strings.Contains(out, "read-only") {
		t.Errorf("a session in the pod writes: %s", out)
	}
	m.env["HOST"], m.env["PORT"] = "127.0.0.1", m.port()
	job := m.job(t)
	job.set("SCOPE=server VERIFY=restore NAME=last")
	job.mustRun("dump.sh")
	replica := m.replica(1)
	copies := replica.script(t.Context(), "bash", "-c", `. "$0/lib.sh"
		write_passfile replication-password "$(follow_with)"; PGPASSFILE=$(follow_with) pg_basebackup --host="$PRIMARY_HOST" \
		--port="$PRIMARY_PORT" --username=replication --no-password --pgdata="$PGDATA"`, m.dir+"/scripts")
	if out, err := copies.CombinedOutput(); err == nil || !strings.Contains(string(out), "no pg_hba.conf entry") {
		t.Errorf("a replica connects: %v\n%s", err, out)
	}
	m.env["CLOSED"] = "false"
	m.restarts((*server).kill)
	logins(open)
	job.into(t, "app", "last").restores("last", checksum, want)
}
