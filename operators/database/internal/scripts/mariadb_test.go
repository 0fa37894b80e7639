//go:build linux

package scripts_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	fillMariaDB = "CREATE TABLE orders (id int PRIMARY KEY, text varchar(64)); " +
		"INSERT INTO orders SELECT seq, md5(seq) FROM seq_1_to_1000"
	checksumMariaDB = "SELECT CONCAT(COUNT(*), ' ', MD5(GROUP_CONCAT(id, ':', text ORDER BY id))) FROM orders"
)

// startReplicated returns a primary with orders and a replica that follows it.
func startReplicated(t *testing.T) (primary, replica *member) {
	t.Helper()
	primary = startPrimary(t, "mariadb")
	primary.login("app", credentials["password"], fillMariaDB)
	replica = primary.replica(1)
	replica.env["CONNECT_RETRY"] = "1"
	replica.mustRun("init.sh")
	replica.start()
	return primary, replica
}

// A replica copies the primary, with its users and all kinds of objects, and follows it.
func TestMariaDBReplicaFollowsThePrimary(t *testing.T) {
	t.Parallel()
	primary := startPrimary(t, "mariadb")
	if got := primary.query("SELECT @@max_connections"); got != "42" {
		t.Errorf("max_connections is %s: the user's settings do not count", got)
	}
	primary.login("app", credentials["password"], fillMariaDB)
	// Statements of an application that would otherwise require root permissions.
	for _, sql := range []string{
		"CREATE TRIGGER t BEFORE INSERT ON orders FOR EACH ROW SET NEW.text = CONCAT(NEW.text, '!')",
		"CREATE FUNCTION one() RETURNS INT DETERMINISTIC RETURN 1", "CREATE VIEW seen AS SELECT * FROM orders",
		"CREATE EVENT nightly ON SCHEDULE EVERY 1 SECOND DO DELETE FROM orders", "CREATE SEQUENCE numbers",
	} {
		if got := primary.login("app", credentials["password"], sql); got != "" {
			t.Fatal(got)
		}
	}
	primary.query("CREATE USER reader@'%' IDENTIFIED BY 'r'; GRANT SELECT, EXECUTE ON app.* TO reader@'%'")
	replica := primary.replica(1)
	replica.mustRun("init.sh")
	replica.start()
	for i := range 20 {
		if got := primary.login("app", credentials["password"],
			"INSERT INTO orders SELECT seq, 'new' FROM seq_"+strconv.Itoa(2000+50*i)+"_to_"+strconv.Itoa(2049+50*i)); got != "" {
			t.Fatal(got)
		}
	}
	want := primary.query(checksumMariaDB)
	if !strings.HasPrefix(want, "2000 ") {
		t.Errorf("the primary has %s", want)
	}
	replica.eventually(checksumMariaDB, want)
	if got := replica.login("reader", "r", "SELECT one(), COUNT(*) FROM seen"); got != "1\t2000" {
		t.Errorf("the replica has %s", got)
	}
	if got := replica.login("app", credentials["password"], "DELETE FROM orders"); !strings.Contains(got, "read-only") {
		t.Errorf("the replica accepts writes: %s", got)
	}
	for range 2 {
		replica.running.kill()
		replica.write("1/data/relay-log.info", "5\n./lost.000001\n4\n") // as after a crash
		replica.start()
		primary.restarts((*server).kill)
		primary.login("app", credentials["password"], "INSERT INTO orders VALUES (NEXTVAL(numbers), 'after')")
		replica.eventually(checksumMariaDB, primary.query(checksumMariaDB))
	}
}

// No login without the correct password, no remote login of root, and no password in a log.
func TestMariaDBPasswords(t *testing.T) {
	t.Parallel()
	m := newPrimary(t, "mariadb")
	m.env["DATABASE"], m.env["DATABASE_USER"] = "o'rd`er_s \\ö", `o'wn"er\ö`
	m.mustRun("init.sh")
	m.start()
	if got := m.login(m.env["DATABASE_USER"], credentials["password"], "CREATE TABLE t (a int); SELECT database()"); got !=
		m.env["DATABASE"] {
		t.Errorf("the owner cannot work: %s", got)
	}
	m.query("CREATE DATABASE `o'rd``er-s \\ö`")
	for user, password := range map[string]string{
		m.env["DATABASE_USER"]: "", "root": "", "replication": credentials["password"], "": "", "mysql": "", "mariadb.sys": "",
	} {
		if got := m.login(user, password, "SELECT 'in'"); !strings.Contains(got, "Access denied") {
			t.Errorf("%s gets in with %q: %s", user, password, got)
		}
	}
	m.env["DATABASE"] = "o'rd`er-s \\ö"
	if got := m.login(m.env["DATABASE_USER"], credentials["password"], "SELECT 1"); !strings.Contains(got, "Access denied") {
		t.Errorf("the owner gets into another database: %s", got)
	}
	m.env["DATABASE"] = "mysql"
	if got := m.login("database_dump", credentials["dump-password"], "SELECT COUNT(*) > 0 FROM mysql.global_priv"); got != "1" {
		t.Errorf("dumps do not get in: %s", got)
	}
	m.query("CREATE DATABASE app; CREATE TABLE app.t (a int)")
	for _, sql := range []string{
		"INSERT INTO app.t VALUES (1)", "CREATE TABLE app.u (a int)", "DROP TABLE app.t", "CREATE USER u", "FLUSH PRIVILEGES",
	} {
		if got := m.login("database_dump", credentials["dump-password"], sql); !strings.Contains(got, "denied") {
			t.Errorf("the user of dumps may write with %s: %s", sql, got)
		}
	}
	if got := m.login("replication", credentials["replication-password"], "SELECT current_user()"); got != "replication@%" {
		t.Errorf("replicas do not get in: %s", got)
	}
	m.query("FLUSH LOGS")
	logs, _ := filepath.Glob(m.env["DATADIR"] + "/*")
	for _, file := range logs {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), credentials["password"][:8]) {
			t.Errorf("%s has a password", file)
		}
	}
}

// A changed password takes effect at the next start of the primary, for the replicas as well.
func TestMariaDBPasswordRotation(t *testing.T) {
	t.Parallel()
	primary, replica := startReplicated(t)
	for name := range credentials {
		primary.write("credentials/"+name, "new "+name)
	}
	primary.query("DROP USER replication@'%'; CREATE USER root@'%'")
	primary.env["DATABASE_USER"] = "owner"
	primary.write("config/strict.cnf", "[mysqld]\nplugin_load_add = simple_password_check\nstrict_password_validation = ON\n"+
		"simple_password_check_digits = 9\n")
	primary.restarts((*server).kill)
	if got := primary.query("SELECT Host FROM mysql.user WHERE User = 'root'"); got != "localhost" {
		t.Errorf("root connects from %s", got)
	}
	if got := primary.query("SELECT @@strict_password_validation"); got != "1" {
		t.Error("the user's rule for passwords is gone")
	}
	for user, password := range map[string]string{
		"owner": "new password", "replication": "new replication-password", "database_dump": "new dump-password",
	} {
		if got := primary.login(user, password, "SELECT current_user()"); got != user+"@%" {
			t.Errorf("%s does not get in: %s", user, got)
		}
	}
	primary.login("owner", "new password", "INSERT INTO orders VALUES (5000, 'after')")
	for want := primary.query(checksumMariaDB); replica.query(checksumMariaDB) != want; { // the probe updates its password
		replica.becomes(replica.running, "ready", true)
	}
	if got := replica.login("owner", "new password", "SELECT COUNT(*) FROM orders"); got != "1001" {
		t.Errorf("the new password is none of the replica: %s", got)
	}
	primary.write("credentials/replication-password", "newer")
	primary.restarts((*server).stop)
	primary.login("owner", "new password", "INSERT INTO orders VALUES (5001, 'after')")
	replica.restarts((*server).stop)
	replica.eventually(checksumMariaDB, primary.query(checksumMariaDB))
}

// After any interruptions the data directory is complete or missing.
func TestMariaDBInitIsInterrupted(t *testing.T) {
	t.Parallel()
	primary := newPrimary(t, "mariadb")
	primary.interrupted("init.sh", 2)
	primary.launch()
	for _, after := range []int{100, 200, 400, 600} {
		<-time.After(time.Duration(after) * time.Millisecond)
		primary.running.kill()
		primary.launch()
	}
	primary.becomes(primary.running, "ready", true)
	primary.login("app", credentials["password"], fillMariaDB)
	replica := primary.replica(1)
	replica.interrupted("init.sh", 2)
	replica.start()
	replica.eventually(checksumMariaDB, primary.query(checksumMariaDB))
}

// A replica waits for the primary without a limit and never accepts a partial copy.
func TestMariaDBReplicaWaitsForThePrimary(t *testing.T) {
	t.Parallel()
	primary := startPrimary(t, "mariadb")
	primary.login("app", credentials["password"], fillMariaDB)
	replica := primary.replica(1)
	replica.program("sleep", `real 0.1`)
	replica.program("mariadb-dump",
		`if [ -e "$SOCKETS/whole" ]; then real "$@"; else : >"$SOCKETS/whole"; real "$@" | head -c 3000; exit 2; fi`)
	primary.running.stop()
	cmd := replica.script(t.Context(), "init.sh")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	primary.start()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	replica.start()
	replica.eventually(checksumMariaDB, primary.query(checksumMariaDB))
}

// Unsuitable data are neither started nor overwritten, and the message has the reason.
func TestMariaDBRejections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, text   string
		script, says string
	}{
		"data of a later series":   {"0/data/series", "99.1\n", "init.sh", "the data are of MariaDB 99.1 and the image is"},
		"the same when it starts":  {"0/data/series", "99.1\n", "run.sh", "go back to version 99.1"},
		"foreign files":            {"0/data/precious", "x", "init.sh", "nothing is put over it"},
		"no data":                  {"config/other.cnf", "", "run.sh", "was not initialized"},
		"a password of two lines":  {"credentials/password", "a\nb", "run.sh", "more than one line"},
		"no password of dumps":     {"credentials/dump-password", "", "run.sh", "dump-password is empty"},
		"no password of a replica": {"credentials/replication-password", "", "run.sh", "replication-password is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newPrimary(t, "mariadb")
			m.write(c.file, c.text)
			if strings.HasPrefix(c.file, "credentials") {
				m.write("0/data/series", "5.5\n")
			}
			if why := m.refused(c.script); !strings.Contains(why, c.says) {
				t.Errorf("it says %q, want %q", why, c.says)
			}
			if got := m.read(c.file); got != c.text {
				t.Errorf("the file has %q", got)
			}
		})
	}
}

// A replica with writes of its own is rejected, however it was stopped.
func TestMariaDBPromotedReplicaIsRejected(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*server){"stopped": (*server).stop, "killed": (*server).kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, replica := startReplicated(t)
			replica.restarts(end) // allowed as long as it only follows
			replica.query("STOP SLAVE; SET GLOBAL read_only = OFF; INSERT INTO orders VALUES (5000, 'only here')")
			replica.query("FLUSH LOGS; FLUSH LOGS")
			end(replica.running)
			replica.refuses("run.sh", "member 1 has writes of its own")
			replica.env["MEMBER"] = "0"
			replica.refuses("run.sh", "are those of a replica")
		})
	}
}

// A replica does not follow a primary with another history, even with equal positions.
func TestMariaDBReplicaRejectsOtherHistory(t *testing.T) {
	t.Parallel()
	primary, replica := startReplicated(t)
	primary.running.stop()
	if err := os.RemoveAll(primary.env["DATADIR"]); err != nil {
		t.Fatal(err)
	}
	primary.mustRun("init.sh")
	primary.start()
	primary.login("app", credentials["password"], fillMariaDB)
	for i := range 20 {
		primary.login("app", credentials["password"], "INSERT INTO orders VALUES ("+strconv.Itoa(5000+i)+", 'other')")
	}
	replica.running.stop()
	replica.launch()
	replica.eventually("SELECT COUNT(*) FROM orders", "1000")
	for got := ""; !strings.Contains(got, "\t1236\t"); { // expected error
		got, _ = replica.try("SHOW SLAVE STATUS")
	}
	if got := replica.query("SELECT COUNT(*) FROM orders"); got != "1000" {
		t.Errorf("the replica has %s", got)
	}
	replica.env["GRACE"] = "0"
	replica.probes(map[string]bool{"live": true, "ready": false})
}

// A server of a later series upgrades the data before it accepts connections, even after interruptions.
func TestMariaDBUpgrade(t *testing.T) {
	t.Parallel()
	m := startPrimary(t, "mariadb")
	m.login("app", credentials["password"], fillMariaDB)
	m.running.kill()
	m.write("0/data/series", "10.2\n")
	m.program("mariadb-upgrade", `real "$@" && : >"$SOCKETS/upgraded" && exec sleep 60`)
	m.launch()
	m.appears(m.env["SOCKETS"] + "/upgraded")
	if got := m.login("app", credentials["password"], "SELECT 1"); got == "1" {
		t.Error("it can be reached while it is upgraded")
	}
	m.probes(map[string]bool{"startup": true, "live": true, "ready": false})
	m.running.kill()
	if got := m.read("0/data/series"); got != "10.2\n" {
		t.Errorf("the series is %s before the end", got)
	}
	m.program("mariadb-upgrade", `real "$@" && : >"$SOCKETS/upgraded"`)
	m.start()
	m.appears(m.env["SOCKETS"] + "/upgraded")
	got := m.login("app", credentials["password"], "SELECT COUNT(*) FROM orders")
	if got != "1000" || m.read("0/data/series") == "10.2\n" {
		t.Errorf("it has %s", got)
	}
}

// The probes neither restart a server without benefit nor send connections to an unready one.
func TestMariaDBProbes(t *testing.T) {
	t.Parallel()
	primary := newPrimary(t, "mariadb")
	primary.mustRun("init.sh")
	primary.probes(map[string]bool{"startup": true, "live": true, "ready": false}) // being prepared
	primary.start()
	primary.probes(map[string]bool{"startup": true, "live": true, "ready": true})
	primary.login("app", credentials["password"], fillMariaDB)

	replica := primary.replica(1)
	replica.env["CONNECT_RETRY"] = "1"
	replica.mustRun("init.sh")
	primary.running.stop()
	replica.launch()
	replica.eventually("SELECT COUNT(*) FROM orders", "1000")
	replica.probes(map[string]bool{"startup": true, "live": true, "ready": false}) // it has never followed
	primary.start()
	replica.becomes(replica.running, "ready", true)
	primary.running.stop()
	replica.probes(map[string]bool{"live": true, "ready": true}) // for GRACE seconds
	replica.restarts((*server).stop)                             // the same after a restart
	replica.env["GRACE"] = "0"
	replica.probes(map[string]bool{"live": true, "ready": false})
	primary.start()
	replica.becomes(replica.running, "ready", true)
	replica.query("SET SESSION sql_log_bin = 0; INSERT INTO orders VALUES (5000, 'only here')")
	primary.login("app", credentials["password"], "INSERT INTO orders VALUES (5000, 'here as well')")
	replica.becomes(replica.running, "ready", false) // it cannot write to its volume

	full := primary.script(t.Context(), "bash", "-c",
		`for i in {1..44}; do mariadb --no-defaults --socket="$SOCKETS/server.sock" `+
			`--user=root --execute="SELECT SLEEP(60)" & done; wait`)
	if err := full.Start(); err != nil {
		t.Fatal(err)
	}
	for got := ""; !strings.Contains(got, "Too many connections"); {
		got = primary.login("app", credentials["password"], "SELECT 1")
	}
	primary.probes(map[string]bool{"live": true, "ready": true})
	_ = syscall.Kill(-full.Process.Pid, syscall.SIGKILL)
	_ = full.Wait()

	_ = syscall.Kill(-primary.running.pid, syscall.SIGSTOP)
	primary.probes(map[string]bool{"live": false, "ready": false})
	primary.running.kill() // leaves its socket
	primary.start()

	primary.running.stop()
	primary.env["DATABASE"] = strings.Repeat("n", 65) // too long for a database
	server := primary.launch()
	for !strings.Contains(server.log.String(), "ready for connections") {
		primary.probes(map[string]bool{"ready": false})
	}
	primary.probes(map[string]bool{"live": true, "ready": false})
}
