//go:build linux

package scripts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rotates changes the passwords in the files, and checks that the running server takes them over and rejects the former
// ones. It returns the new ones.
func (m *member) rotates(times string) map[string]string {
	m.t.Helper()
	users := map[string]string{m.env["DATABASE_USER"]: "password", "replication": "replication-password"}
	if m.engine == "mysql" {
		delete(users, "replication")
	}
	changed := map[string]string{}
	for user, name := range users {
		changed[user] = times + ` n'e\w "ö$(x)`
		m.write("credentials/"+name, changed[user])
	}
	m.probes(map[string]bool{"ready": true})
	for user, password := range changed {
		if got := m.login(user, password, "SELECT 1"); got != "1" {
			m.t.Errorf("%s does not get in with the password of the file: %s", user, got)
		}
		if got := m.login(user, credentials[users[user]], "SELECT 1"); got == "1" {
			m.t.Errorf("%s gets in with the former password", user)
		}
	}
	return changed
}

// A changed password takes effect on a running primary, and no log has it. An invalid one changes nothing.
func TestPasswordRotationWithoutRestart(t *testing.T) {
	t.Parallel()
	m := startPrimary(t, "postgresql")
	m.query("ALTER SYSTEM SET log_min_duration_sample = 0")
	m.query("SELECT pg_reload_conf()")
	m.write("credentials/dump-password", "dump")
	m.query("ALTER ROLE database_dump PASSWORD NULL")
	m.query("SELECT 'rotation begins'")
	changed := m.rotates("once")["app"]
	m.rotates("twice")
	if got := m.query("SELECT rolpassword IS NULL FROM pg_authid WHERE rolname = 'database_dump'"); got != "t" {
		t.Error("a role without a password has one now")
	}
	before := m.query("SELECT rolpassword FROM pg_authid WHERE rolname = 'app'")
	for _, text := range []string{"", "two\nlines"} {
		m.write("credentials/password", text)
		m.probes(map[string]bool{"ready": true})
	}
	if got := m.query("SELECT rolpassword FROM pg_authid WHERE rolname = 'app'"); got != before {
		t.Error("an invalid password is set")
	}
	m.query("SELECT 'rotation ends'")
	_, log, began := strings.Cut(m.running.logged(t, "rotation ends"), "rotation begins")
	if !began || strings.Contains(log, changed[:8]) || strings.Contains(log, "ALTER ROLE") {
		t.Errorf("the log has a password:\n%s", log)
	}
}

// The same for MariaDB. The replicas get the passwords of the users, and log in with the changed one.
func TestMariaDBPasswordRotationWithoutRestart(t *testing.T) {
	t.Parallel()
	primary, replica := startReplicated(t)
	primary.write("config/slow.cnf", "[mysqld]\nslow_query_log = ON\nlong_query_time = 0\n")
	primary.restarts((*server).stop)
	changed := primary.rotates("once")
	primary.login("app", changed["app"], "INSERT INTO orders VALUES (5000, 'after')")
	for want := primary.query(checksumMariaDB); replica.query(checksumMariaDB) != want; { // the probe updates its password
		replica.becomes(replica.running, "ready", true)
	}
	if got := replica.login("app", changed["app"], "SELECT 1"); got != "1" {
		t.Errorf("the replica has another password: %s", got)
	}
	primary.write("credentials/password", "")
	primary.probes(map[string]bool{"ready": true})
	if got := primary.login("app", changed["app"], "SELECT 1"); got != "1" {
		t.Errorf("an empty password is set: %s", got)
	}
	primary.query("FLUSH LOGS")
	files, _ := filepath.Glob(primary.env["DATADIR"] + "/*")
	for _, file := range files {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), changed["app"][:7]) {
			t.Errorf("%s has a password", file)
		}
	}
}

// The same for MySQL, for which MariaDB stands in.
func TestMySQLPasswordRotationWithoutRestart(t *testing.T) {
	t.Parallel()
	m := newPrimary(t, "mysql")
	m.mysql()
	m.mustRun("init.sh")
	m.start()
	m.rotates("once")
	m.rotates("twice")
}
