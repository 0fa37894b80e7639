//go:build linux

package scripts_test

import (
	"strings"
	"testing"
)

// crowdMariaDB creates databases, users and roles that depend on each other: a view of a database that is dumped later, and
// one whose definer has the permission by a grant on a column only.
const crowdMariaDB = "CREATE DATABASE `zoo's` CHARACTER SET latin1 COLLATE latin1_german1_ci COMMENT 'animals'; " +
	"CREATE TABLE `zoo's`.animals (id int PRIMARY KEY AUTO_INCREMENT, name varchar(20), cage int) WITH SYSTEM VERSIONING; " +
	"INSERT INTO `zoo's`.animals (name) VALUES ('lion'), ('bear'); UPDATE `zoo's`.animals SET name = 'Löwe' WHERE id = 1; " +
	"CREATE TABLE `zoo's`.old (a int) ENGINE = MyISAM; INSERT INTO `zoo's`.old VALUES (7); " +
	"CREATE USER billing@'%' IDENTIFIED BY 'bill' WITH MAX_USER_CONNECTIONS 7; CREATE USER `o'dd\"ö`@'10.%' ACCOUNT LOCK; " +
	"CREATE USER admin@'%' IDENTIFIED BY 'admin'; GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION; " +
	"CREATE ROLE reader; CREATE ROLE writer; GRANT writer TO app@'%' WITH ADMIN OPTION; GRANT reader TO writer; GRANT writer TO billing@'%'; " +
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
			if got := other.login("app", credentials["password"], "SET ROLE writer; GRANT reader TO billing@'%'"); got != "" &&
				!strings.Contains(got, "Access denied") {
				t.Errorf("the application gets %s", got)
			}
			if got := other.login("app", credentials["password"], "GRANT writer TO admin@'%'"); got != "" {
				t.Errorf("the administrator of a role gets %s", got)
			}
			other.query("GRANT EXECUTE ON app.* TO billing@'%'")
			if got := other.login("billing", "bill", "CALL whoami(); SELECT CURRENT_ROLE(), `zoo's`.f(), COUNT(*) FROM `zoo's`.old"); got !=
				"billing@%\nwriter\t5\t1" {
				t.Errorf("a restored user gets %s", got)
			}
			again := m.into(t, "none", "a")
			again.refuses("restore.sh", "has no database none: set spec.databaseName")
			again.env["DATABASE"], again.env["DATABASE_USER"] = "app", "none"
			again.refuses("restore.sh", "has no user none: set spec.username")
		})
	}
}
