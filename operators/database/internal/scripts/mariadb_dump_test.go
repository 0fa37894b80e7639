//go:build linux

package scripts_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// family has the engines that share scripts. The second one is MariaDB with the program names of MySQL.
var family = []string{"mariadb", "mysql"}

// mysql provides MariaDB with the program names of MySQL and its way to create a data directory, because MySQL is not
// available for tests.
func (m *member) mysql() {
	if m.engine != "mysql" {
		return
	}
	m.program("mysqld", `for a; do case $a in --datadir=*) dir=${a#--datadir=} ;; esac; done
case " $* " in *" --initialize-insecure "*)
	[ ! -e "$dir" ] || [ -z "$(ls "$dir")" ] || exit 1
	exec mariadb-install-db --no-defaults --datadir="$dir" --auth-root-authentication-method=normal --skip-test-db ;;
esac
exec /usr/sbin/mariadbd "$@"`)
	for _, name := range []string{"mysql", "mysqldump", "mysqladmin"} {
		m.program(name, `exec mariadb`+map[string]string{"mysqldump": "-dump", "mysqladmin": "-admin"}[name]+` "$@"`)
	}
}

// createAllObjects creates each kind of object that a database can have, as its owner.
func (m *member) createAllObjects() {
	m.t.Helper()
	for _, sql := range []string{
		"CREATE TABLE `Odd'\"``\\\\ö` (a BLOB, b TEXT CHARACTER SET utf8mb4)",
		"INSERT INTO `Odd'\"``\\\\ö` VALUES (x'00ff0a0d27', '😀\\'\\\\')",
		"CREATE TABLE parent (id int PRIMARY KEY)", "CREATE TABLE child (id int, FOREIGN KEY (id) REFERENCES parent (id))",
		"CREATE TRIGGER t BEFORE INSERT ON orders FOR EACH ROW SET NEW.text = CONCAT(NEW.text, '!')",
		"CREATE FUNCTION one() RETURNS INT DETERMINISTIC RETURN 1", "CREATE PROCEDURE two() SELECT 2",
		"CREATE VIEW seen AS SELECT * FROM orders",
		"CREATE EVENT later ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' DO DELETE FROM orders",
		"CREATE SEQUENCE numbers", "SELECT NEXTVAL(numbers)",
	} {
		if got := m.login("app", credentials["password"], sql); strings.Contains(got, "ERROR") {
			m.t.Fatal(sql, got)
		}
	}
}

const everythingMariaDB = "SELECT CONCAT(one(), HEX(a), b, NEXTVAL(numbers), (SELECT COUNT(*) FROM seen), " +
	"(SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE()), " +
	"(SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = DATABASE()), " +
	"(SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE())) FROM `Odd'\"``\\\\ö`"

// A dump is restored once, only into an empty database, and matches its description.
func TestMariaDBDumpAndRestore(t *testing.T) {
	t.Parallel()
	for _, engine := range family {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			server := newPrimary(t, engine)
			server.mysql()
			server.mustRun("init.sh")
			server.start()
			server.probes(map[string]bool{"startup": true, "live": true, "ready": true})
			server.running.kill()
			server.start()
			server.login("app", credentials["password"], fillMariaDB)
			server.env["HOST"], server.env["PORT"] = "127.0.0.1", server.port()
			server.createAllObjects()
			before := server.query(checksumMariaDB)
			for i, c := range []struct{ env, location string }{
				{"", "/app.sql.gz"},
				{"COMPRESSION=0 VERIFY=none", "/app.sql"},
				{"VERIFY=restore", "/app.sql.gz"},
				{"DATABASES=app VERIFY=list", "/app.sql.gz"},
			} {
				m := server.job(t)
				m.set(c.env)
				got := m.dumpTo("20261101T0200", c.location)
				m.dumped("../data/precious", "x")
				m.refuses("restore.sh", "there are data in ")
				other := m.into(t, "other_"+string(rune('a'+i)), "")
				for range 2 { // the second time it is already restored
					other.restores(got.Name, checksumMariaDB, before)
				}
				if after := other.query(everythingMariaDB); after != "100FF0A0D27😀'\\10011000211" {
					t.Errorf("there is %s", after)
				}
				if got := other.login("app", credentials["password"], "SELECT COUNT(*) FROM orders"); got != "1000" {
					t.Errorf("the application gets %s", got)
				}
				other = m.into(t, "app", "20261101T0300")
				other.refuses("restore.sh", "there is no dump")
			}
		})
	}
}

// A corrupt dump never gets a name: the older dumps stay, and nothing is left behind.
func TestMariaDBCorruptDumps(t *testing.T) {
	t.Parallel()
	server := newDumpJob(t, "mariadb")
	for name, c := range map[string]struct{ env, program, does, says string }{
		"fails at once":             {"", "mariadb-dump", "exit 1", "mariadb-dump failed"},
		"fails at the end":          {"", "mariadb-dump", `real "$@"; exit 1`, "mariadb-dump failed"},
		"has no room":               {"", "gzip", `ulimit -f 4; real "$@"`, "bytes are free"}, // as on a full disk
		"writes nothing":            {"", "mariadb-dump", "exit 0", "cannot be read back"},
		"writes half, and is happy": {"", "mariadb-dump", `real "$@" | head -c 3000`, "cannot be read back"},
		"writes half a file": {
			"", "gzip", `if [ "$1" = -dc ]; then real "$@"; else real "$@" | head -c 3000; fi`, "cannot be read back",
		},
		"is too old": {
			"", "mariadb-dump",
			`if [ "$2" = --version ]; then echo "mariadb-dump from 10.1.2-MariaDB, client 15"; else real "$@"; fi`,
			"cannot dump a server of version 10.",
		},
		"loses a table": {
			"VERIFY=restore", "mariadb-dump", `real "$1" --ignore-table=app.orders "${@:2}"`, "has not all",
		},
		"cannot be restored":      {"VERIFY=restore", "mariadb-dump", `echo "NO SQL;"; real "$@"`, "cannot be restored"},
		"has a name with a slash": {"NAME=../2", "true", "", "cannot be the name"},
		"has an odd format":       {"FORMAT=custom", "true", "", "can be plain"},
		"is to have users":        {"GLOBALS=true", "true", "", "can be false"},
		"has the wrong password":  {"DATABASE_USER=replication", "true", "", "rejects the password of replication"},
		"has an odd scope":        {"SCOPE=all", "true", "", "can be server or database"},
		"loses the users": {
			"SCOPE=server", "mariadb-dump", `[[ $* != *" mysql "* ]] || exit 1; real "$@"`, "mariadb-dump failed",
		},
		"loses a table of the server": {
			"SCOPE=server VERIFY=restore", "mariadb-dump", `real "$1" --ignore-table=app.orders "${@:2}"`, "has other objects",
		},
		"loses a user": {
			"SCOPE=server VERIFY=restore", "mariadb-dump",
			`if [[ $* = *--socket* ]]; then real "$@"; else real "$@" | sed "s/'replication'/'other'/"; fi`, "has other",
		},
		"restores other passwords": {
			"SCOPE=server VERIFY=restore", "mariadb-dump",
			`if [[ $* = *--socket* ]]; then real "$@" | sed -E 's/\*[0-9A-F]{4}/*0000/g'; else real "$@"; fi`, "has other users",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := server.job(t)
			m.env["KEEP"] = "1"
			m.dump("1")
			if !strings.Contains(c.does, "--version") {
				c.does = `if [ "$2" = --version ]; then real "$@"; exit; fi; ` + c.does
			}
			m.program(c.program, c.does)
			m.env["NAME"] = "2"
			m.set(c.env)
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

// An interrupted restore is started again, and a failed one leaves no data directory.
func TestMariaDBRestoreIsInterrupted(t *testing.T) {
	t.Parallel()
	server := newDumpJob(t, "mariadb")
	server.createAllObjects()
	before := server.query(checksumMariaDB)
	m := server.job(t)
	m.dump("a")
	other := m.into(t, "other", "a")

	file := m.env["BACKUPS"] + "/a/app.sql.gz"
	sums := m.env["BACKUPS"] + "/a/SHA256SUMS"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	good, _ := os.ReadFile(sums)
	if err := os.WriteFile(file, text[:len(text)-50], 0o644); err != nil {
		t.Fatal(err)
	}
	other.refuses("restore.sh", "is not what it was when it was written")
	m.mustRun("bash", "-c", `cd "$BACKUPS/a" && sha256sum app.sql.gz >SHA256SUMS`) // correct checksums of damaged data
	other.refuses("restore.sh", "the dump a cannot be restored")
	if _, err := os.Stat(other.env["DATADIR"]); err == nil {
		t.Error("there is a data directory")
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sums, good, 0o644); err != nil {
		t.Fatal(err)
	}

	other.program("mariadb",
		`case " $* " in *" --binary-mode "*) { head -c 50000; : >"$SOCKETS/half"; sleep 60; } | real "$@" ;; *) real "$@" ;; esac`)
	cmd := other.script(t.Context(), "restore.sh")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	other.appears(other.env["SOCKETS"] + "/half")
	killProcesses(other.home())
	_ = cmd.Wait()
	if _, err := os.Stat(other.env["DATADIR"]); err == nil {
		t.Error("there is a data directory")
	}
	other.program("mariadb", `real "$@"`)
	other.env["NAME"] = ""
	other.restores("a", checksumMariaDB, before)
}
