//go:build linux

package scripts_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// crowdMariaDB creates databases, users and roles that depend on each other: a view of a database that is dumped later, and
// one whose definer has the permission by a grant on a column only.
const crowdMariaDB = "CREATE DATABASE `zoo's` CHARACTER SET latin1 COLLATE latin1_german1_ci COMMENT 'animals'; " +
	"CREATE TABLE `zoo's`.animals (id int PRIMARY KEY AUTO_INCREMENT, name varchar(20), cage int) WITH SYSTEM VERSIONING; " +
	"INSERT INTO `zoo's`.animals (name) VALUES ('lion'), ('bear'); UPDATE `zoo's`.animals SET name = 'Löwe' WHERE id = 1; " +
	"CREATE TABLE `zoo's`.old (a int) ENGINE = MyISAM; INSERT INTO `zoo's`.old VALUES (7); " +
	"CREATE USER billing@'%' IDENTIFIED BY 'bill' WITH MAX_USER_CONNECTIONS 7; CREATE USER `o'dd\"ö`@'10.%' ACCOUNT LOCK; " +
	"CREATE USER admin@'%' IDENTIFIED BY 'admin'; GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION; " +
	"CREATE ROLE reader; CREATE ROLE writer; GRANT writer TO app@'%' WITH ADMIN OPTION; GRANT reader TO writer; " +
	"GRANT writer TO billing@'%'; " +
	"SET DEFAULT ROLE writer FOR billing@'%'; GRANT SELECT ON `zoo's`.* TO reader; GRANT INSERT ON `zoo's`.old TO writer; " +
	"GRANT SELECT (id, name), UPDATE (name) ON `zoo's`.animals TO billing@'%'; " +
	"CREATE FUNCTION `zoo's`.f() RETURNS INT DETERMINISTIC RETURN 5; GRANT EXECUTE ON FUNCTION `zoo's`.f TO billing@'%'; " +
	"CREATE DEFINER = billing@'%' VIEW `zoo's`.names AS SELECT name FROM `zoo's`.animals; " +
	"CREATE VIEW app.a_names AS SELECT name FROM `zoo's`.names; CREATE SQL SECURITY INVOKER VIEW app.b AS SELECT 1; " +
	"CREATE DEFINER = billing@'%' PROCEDURE app.whoami() SELECT CURRENT_USER(); " +
	"CREATE SERVER elsewhere FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'nowhere', PASSWORD 'secret')"

// The dump of a whole server has all databases with their objects and definers, and the users with their passwords,
// privileges and roles. A restore makes the same server.
func TestMariaDBServerDumpIsComplete(t *testing.T) {
	t.Parallel()
	server := newDumpJob(t, "mariadb")
	server.createAllObjects()
	server.query(crowdMariaDB)
	incomplete := server.job(t)
	incomplete.set("SCOPE=server NAME=a")
	incomplete.program("mariadb-dump", `case $* in *--help*) ;; *) real "$@" ;; esac`) // as before version 10.11
	incomplete.refuses("dump.sh", "table zoo's.animals is system-versioned")
	incomplete.program("mariadb-dump", `real "$@"`)
	server.query("CREATE TABLE gone (a int); CREATE VIEW broken AS SELECT a FROM gone; DROP TABLE gone")
	incomplete.refuses("dump.sh", "View 'app.broken' references invalid table")
	incomplete.has()
	server.query("DROP VIEW broken")
	before := server.query(checksumMariaDB)
	for _, compression := range []string{"0", "6"} {
		t.Run(compression, func(t *testing.T) {
			t.Parallel()
			m := server.job(t)
			m.set("SCOPE=server VERIFY=restore COMPRESSION=" + compression)
			if got := m.dump("a"); got.Verified != "restore" || got.Location != "a" {
				t.Errorf("the result is %+v", got)
			}
			other := m.into(t, "app", "a")
			other.restores("a", checksumMariaDB, before)
			for sql, want := range map[string]string{
				"SELECT COUNT(*) FROM `zoo's`.animals FOR SYSTEM_TIME ALL":              "3",
				"SELECT GROUP_CONCAT(name ORDER BY name) FROM a_names":                  "bear,Löwe",
				"SELECT * FROM `zoo's`.old":                                             "7",
				"SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_NAME = 'old'": "MyISAM",
				"SELECT CONCAT(DEFAULT_COLLATION_NAME, SCHEMA_COMMENT) FROM information_schema.SCHEMATA " +
					"WHERE SCHEMA_NAME LIKE 'zoo%'": "latin1_german1_cianimals",
				"SELECT DEFINER FROM information_schema.VIEWS WHERE TABLE_NAME = 'names'":                "billing@%",
				"SELECT DEFINER FROM information_schema.ROUTINES WHERE ROUTINE_NAME = 'whoami'":          "billing@%",
				"SELECT DEFINER FROM information_schema.EVENTS":                                          "app@%",
				"SELECT DEFINER FROM information_schema.TRIGGERS":                                        "app@%",
				"SELECT COUNT(*) FROM mysql.servers WHERE Server_name = 'elsewhere'":                     "1",
				"SELECT JSON_VALUE(Priv, '$.account_locked') FROM mysql.global_priv WHERE Host = '10.%'": "1",
				"SELECT max_user_connections FROM mysql.user WHERE User = 'billing'":                     "7",
			} {
				if got, err := other.try(sql); got != want {
					t.Errorf("%s: %q, want %q: %v", sql, got, want, err)
				}
			}
			for _, account := range []string{"billing@'%'", "app@'%'", "admin@'%'", "reader", "writer", "`o'dd\"ö`@'10.%'"} {
				sql := "SHOW GRANTS FOR " + account
				if want, got := server.query(sql), other.query(sql); got != want || got == "" {
					t.Errorf("%s has the grants %s, want %s", account, got, want)
				}
			}
			if got := other.login("app", credentials["password"], "GRANT writer TO admin@'%'"); got != "" {
				t.Errorf("the administrator of a role gets %s", got)
			}
			other.query("GRANT EXECUTE ON app.* TO billing@'%'")
			if got := other.login("billing", "bill", "CALL whoami(); SELECT CURRENT_ROLE(), `zoo's`.f(), COUNT(*) "+
				"FROM `zoo's`.old"); got != "billing@%\nwriter\t5\t1" {
				t.Errorf("a restored user gets %s", got)
			}
			again := m.into(t, "none", "a")
			again.refuses("restore.sh", "has no database none: set spec.databaseName")
			again.env["DATABASE"], again.env["DATABASE_USER"] = "app", "none"
			again.refuses("restore.sh", "has no user none: set spec.username")
			m.mustRun("sed", "-i", `s/"serverVersion":"[0-9.]*/"serverVersion":"99.1.2/`, m.env["BACKUPS"]+"/a/about.json")
			again.refuses("restore.sh", "use an image of version 99.1 or later")
		})
	}
}

// A replica is sufficient for a dump of the whole server, unless the replica has lost the state of an event.
func TestMariaDBServerDumpOfReplica(t *testing.T) {
	t.Parallel()
	primary, replica := startReplicated(t)
	replica.env["HOST"], replica.env["PORT"] = "127.0.0.1", replica.port()
	m := replica.job(t)
	m.set("SCOPE=server VERIFY=restore")
	m.dump("a")
	m.into(t, "app", "a").restores("a", checksumMariaDB, primary.query(checksumMariaDB))
	primary.query("CREATE EVENT later ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' DO SELECT 1")
	replica.eventually("SELECT STATUS FROM information_schema.EVENTS", "SLAVESIDE_DISABLED")
	m.env["NAME"] = "b"
	m.refuses("dump.sh", "event app.later is disabled as on a replica")
}

// writes inserts rows as the administrator until the function that it returns is called. It counts attempts and successes.
func (m *member) writes(table string) (attempts, acknowledged *atomic.Int64, end func()) {
	attempts, acknowledged = new(atomic.Int64), new(atomic.Int64)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if m.login("admin", "admin", "INSERT INTO "+table+" VALUES ()") == "" {
				acknowledged.Add(1)
			}
			attempts.Add(1)
		}
	}()
	return attempts, acknowledged, func() { close(stop); <-ended }
}

// passes waits until a number has grown by three.
func (m *member) passes(number *atomic.Int64) {
	m.t.Helper()
	from := number.Load()
	for deadline := time.Now().Add(60 * time.Second); number.Load() < from+3; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatal("there are no more attempts to write")
		}
	}
}

// While the primary is closed, no client but the dump gets in, also none with all privileges. The dump has everything that
// was acknowledged before, and all users as they were.
func TestMariaDBClosedPrimaryRejectsWriters(t *testing.T) {
	t.Parallel()
	primary := startPrimary(t, "mariadb")
	primary.login("app", credentials["password"], fillMariaDB)
	primary.env["HOST"], primary.env["PORT"] = "127.0.0.1", primary.port()
	primary.query("CREATE USER admin@'%' IDENTIFIED BY 'admin'; GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION; " +
		"CREATE USER barred@'%' IDENTIFIED BY 'barred' ACCOUNT LOCK; CREATE USER dumps@'%'; CREATE ROLE reader; " +
		"CREATE TABLE acks (id int PRIMARY KEY AUTO_INCREMENT); CREATE TABLE ticks (id int PRIMARY KEY AUTO_INCREMENT); " +
		"CREATE EVENT tick ON SCHEDULE EVERY 1 SECOND DO INSERT INTO ticks VALUES ()")
	const rows = "SELECT User, Host, JSON_COMPACT(JSON_REMOVE(Priv, '$.password_last_changed')) FROM mysql.global_priv " +
		"WHERE User <> 'database_dump' ORDER BY 1, 2"
	users := primary.query(rows)
	primary.write("config/events.cnf", "[mysqld]\nevent_scheduler = ON\n")
	job := primary.job(t)
	attempts, acknowledged, end := job.writes("acks")
	defer end()
	job.passes(acknowledged)
	primary.env["CLOSED"] = "true"
	primary.restarts((*server).stop)
	const state = "SELECT CONCAT(@@gtid_binlog_pos, ' ', (SELECT COUNT(*) FROM acks), ' ', (SELECT COUNT(*) FROM ticks))"
	count := primary.query(state)
	job.passes(attempts) // writes from before are counted now
	before := acknowledged.Load()
	for user, password := range map[string]string{
		"admin": "admin", "app": credentials["password"], "replication": credentials["replication-password"], "dumps": "",
	} {
		if got := job.login(user, password, "SELECT 1"); !strings.Contains(got, "ERROR 4151") {
			t.Errorf("%s gets in: %s", user, got)
		}
	}
	job.set("SCOPE=server VERIFY=restore")
	job.dump("a")
	job.passes(attempts)
	if rows, _ := strconv.ParseInt(strings.Fields(count)[1], 10, 64); rows < before {
		t.Errorf("of %d acknowledged writes there are %d", before, rows)
	}
	if after := acknowledged.Load(); after != before || primary.query(state) != count {
		t.Errorf("after %d writes and %s there are %d and %s", before, count, after, primary.query(state))
	}
	primary.running.kill()
	delete(primary.env, "CLOSED")
	primary.start()
	job.passes(acknowledged)
	restored := job.into(t, "app", "a")
	restored.restores("a", "SELECT COUNT(*) FROM acks", strings.Fields(count)[1])
	for name, m := range map[string]*member{"opened": primary, "restored": restored} {
		if got := m.login("barred", "barred", "SELECT 1"); !strings.Contains(got, "ERROR 4151") {
			t.Errorf("%s: a locked user gets in: %s", name, got)
		}
		if got := m.login("admin", "admin", "INSERT INTO acks VALUES ()"); got != "" {
			t.Errorf("%s: the administrator gets %s", name, got)
		}
	}
	if got := primary.query(rows); got != users {
		t.Errorf("the users are %s, and were %s", got, users)
	}
	// As if the server had been killed while it was closed down.
	primary.query("UPDATE mysql.global_priv SET Priv = JSON_SET(Priv, '$.closed', 'open', '$.account_locked', true) " +
		"WHERE User = 'admin'; FLUSH PRIVILEGES")
	primary.restarts((*server).kill)
	job.passes(acknowledged)
}
