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

// fill makes a table of 1,000 orders.
const fill = "CREATE TABLE orders (id int PRIMARY KEY, text text); " +
	"INSERT INTO orders SELECT i, md5(i::text) FROM generate_series(1, 1000) AS i"

// fillWith is the same for each engine.
var fillWith = map[string]string{"postgresql": fill, "mariadb": fillMariaDB, "mysql": fillMariaDB}

// A replica is a copy of the primary and follows it, over the network and with passwords of any kind.
func TestReplicaFollowsThePrimary(t *testing.T) {
	t.Parallel()
	primary := started(t, "postgresql")
	if got := primary.query("SHOW max_connections"); got != "42" {
		t.Errorf("max_connections is %s: the user's settings do not count", got)
	}
	primary.login("app", credentials["password"], fill)
	replica := primary.replica(1)
	replica.must("init.sh")
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

// settings are those of which a replica needs as much as its primary.
const settings = "SELECT string_agg(setting, ' ' ORDER BY name) FROM pg_settings WHERE name IN ('max_connections', " +
	"'max_worker_processes', 'max_wal_senders', 'max_prepared_transactions', 'max_locks_per_transaction')"

// configured writes those settings, in the order of their names.
func (m *member) configured(connections, locks, prepared, senders, workers int) {
	m.write("config/more.conf", fmt.Sprintf("max_connections = %d\nmax_locks_per_transaction = %d\n"+
		"max_prepared_transactions = %d\nmax_wal_senders = %d\nmax_worker_processes = %d\n",
		connections, locks, prepared, senders, workers))
}

// Settings that are lowered count for a replica, which restarts first, once the primary has them, and those that are raised
// at once.
func TestSettingsAreLowered(t *testing.T) {
	t.Parallel()
	primary := newPrimary(t, "postgresql")
	primary.configured(200, 128, 10, 12, 9)
	primary.must("init.sh")
	primary.start()
	primary.query(fill)
	replica := primary.replica(1)
	replica.must("init.sh")
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
	primary.configured(50, 64, 0, 13, 8) // and one is raised
	restarted(replica, "200 128 10 13 9")
	restarted(replica, "200 128 10 13 9") // which may happen again
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
		t.Errorf("a setting that is none is not told: %s", log)
	}
}

// Nobody gets in without the right password, from this host either, and no log has one.
func TestPasswords(t *testing.T) {
	t.Parallel()
	m := newPrimary(t, "postgresql")
	m.env["DATABASE"], m.env["DATABASE_USER"] = `o'rd"ers \ö`, `o'wn"er \ö`
	m.must("init.sh")
	s := m.start()
	for user, password := range map[string]string{
		m.env["DATABASE_USER"]: "", "postgres": "", "replication": credentials["password"],
	} {
		if got := m.login(user, password, "SELECT 1"); got == "1" {
			t.Errorf("%s gets in with %q", user, password)
		}
	}
	for user, credential := range map[string]string{
		m.env["DATABASE_USER"]: "password", "postgres": "superuser-password", "replication": "replication-password",
	} {
		if got := m.login(user, credentials[credential], "SELECT current_user"); got != user {
			t.Errorf("%s does not get in: %s", user, got)
		}
	}
	if got := m.login(m.env["DATABASE_USER"], credentials["password"], "CREATE TABLE t (); SELECT current_database()"); got !=
		m.env["DATABASE"] {
		t.Errorf("the owner cannot work: %s", got)
	}
	for began := time.Now(); !strings.Contains(s.log.String(), "CREATE TABLE t"); <-time.After(10 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("the user asked for all statements in the log, which has\n%s", s.log.String())
		}
	}
	if log := s.log.String(); strings.Contains(log, "PASSWORD") {
		t.Errorf("the log has a password:\n%s", log)
	}
}

// A password that changed counts from the next start on, also in data that another Database made, and for the replicas.
func TestRotation(t *testing.T) {
	t.Parallel()
	primary := started(t, "postgresql")
	primary.query(fill)
	replica := primary.replica(1)
	replica.must("init.sh")
	follower := replica.start()
	for name := range credentials {
		primary.write("credentials/"+name, "new "+name)
	}
	primary.query("DROP ROLE replication")
	primary.env["DATABASE"], primary.env["DATABASE_USER"] = "other", "somebody"
	for range 2 {
		primary.restarts((*server).kill)
		for user, password := range map[string]string{
			"somebody": "new password", "postgres": "new superuser-password", "replication": "new replication-password",
		} {
			if got := primary.login(user, password, "SELECT current_user"); got != user {
				t.Errorf("%s does not get in: %s", user, got)
			}
		}
		if got := primary.login("postgres", "super", "SELECT 1"); got == "1" {
			t.Error("the old password is good still")
		}
	}
	// One replica learns it by its probe, and one by being restarted.
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

// However often the start is ended while it sets passwords, the next one does.
func TestRotationIsInterrupted(t *testing.T) {
	t.Parallel()
	m := started(t, "postgresql")
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

// However often it is ended in the middle, there are complete data in the end or none.
func TestInitIsInterrupted(t *testing.T) {
	t.Parallel()
	m := newPrimary(t, "postgresql")
	m.interrupted("init.sh", 2)
	m.start()
	if got := m.login("app", credentials["password"], "SELECT 1"); got != "1" {
		t.Errorf("the owner cannot work: %s", got)
	}
}

// What may not be started, or written over, says why.
func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, text   string
		script, says string
	}{
		"data of another major version": {"0/data/PG_VERSION", "9\n", "init.sh", "the data are of PostgreSQL 9 and the image is"},
		"the same when it starts":       {"0/data/PG_VERSION", "9\n", "run.sh", "bootstrapFrom"},
		"somebody else's files":         {"0/data/precious", "x", "init.sh", "nothing is put over it"},
		"no data":                       {"config/other.conf", "", "run.sh", "was not initialized"},
		"no password":                   {"credentials/superuser-password", "", "init.sh", "superuser-password is empty"},
		"a password of two lines":       {"credentials/superuser-password", "a\nb", "init.sh", "more than one line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newPrimary(t, "postgresql")
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

// There is one primary, whatever somebody does to a replica.
func TestPromotedReplicaIsRefused(t *testing.T) {
	t.Parallel()
	primary := started(t, "postgresql")
	primary.query(fill)
	replica := primary.replica(1)
	replica.must("init.sh")
	s := replica.start()
	replica.query("SELECT pg_promote()")
	replica.query("INSERT INTO orders VALUES (5000, 'only here')")
	s.stop()
	replica.refuses("run.sh", "member 1 was promoted")
	replica.env["MEMBER"] = "0"
	replica.write("1/data/standby.signal", "")
	replica.refuses("run.sh", "are those of a replica")
}

// The kubelet neither restarts a server that would be no better after, nor sends work to one that does none.
func TestProbes(t *testing.T) {
	t.Parallel()
	primary := newPrimary(t, "postgresql")
	primary.must("init.sh")
	primary.probes(map[string]bool{"startup": true, "live": true, "ready": false}) // it is being prepared
	primary.start()
	primary.query(fill)
	primary.probes(map[string]bool{"startup": true, "live": true, "ready": true})

	replica := primary.replica(1)
	replica.must("init.sh")
	primary.running.stop()
	s := replica.launch()
	replica.becomes(s, "live", true)
	replica.probes(map[string]bool{"startup": true, "live": true, "ready": false}) // it never followed
	primary.start()
	replica.becomes(s, "ready", true)
	primary.running.stop()
	replica.eventually("SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'", "0")
	replica.probes(map[string]bool{"live": true, "ready": true}) // for GRACE seconds
	s.stop()
	s = replica.launch()
	replica.becomes(s, "ready", true) // also if it was restarted
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

	_ = syscall.Kill(primary.running.pid, syscall.SIGSTOP)
	primary.probes(map[string]bool{"live": false, "ready": false})
	_ = syscall.Kill(primary.running.pid, syscall.SIGCONT)

	_ = syscall.Kill(primary.running.pid, syscall.SIGTERM) // it waits for those sessions, and refuses others
	primary.becomes(primary.running, "ready", false)
	primary.probes(map[string]bool{"startup": true, "live": true})
}

// While the passwords are set, which takes as long as the server needs to recover, the kubelet waits; and a pod that is
// deleted meanwhile ends at once.
func TestRotationTakesLong(t *testing.T) {
	t.Parallel()
	m := started(t, "postgresql")
	m.running.kill() // which leaves its socket
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
	if err := os.Chmod(m.env["PGDATA"], 0o2770); err != nil { // as a volume is that is mounted for a group
		t.Fatal(err)
	}
	m.start()
}
