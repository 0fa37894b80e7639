//go:build linux

package scripts_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// into returns the primary of a new Database, whose data directory is to be restored from a dump.
func (m *member) into(t *testing.T, database, name string) *member {
	t.Helper()
	other := m.job(t)
	other.env["DATABASE"], other.env["BACKUPS"], other.env["NAME"] = database, m.env["BACKUPS"], name
	other.env["MEMBER"], other.env["PORT"] = "0", strconv.Itoa(freePort(t))
	other.sockets = ""
	return other
}

// set sets variables of the environment.
func (m *member) set(settings string) {
	for setting := range strings.FieldsSeq(settings) {
		key, value, _ := strings.Cut(setting, "=")
		m.env[key] = value
	}
}

// hasRoles checks that the named dump has the roles, without passwords.
func (m *member) hasRoles(name string) {
	m.t.Helper()
	roles, err := os.ReadFile(m.env["BACKUPS"] + "/" + name + "/%globals.sql")
	if text := string(roles); err != nil || strings.Contains(text, "SCRAM") || !strings.Contains(text, "CREATE ROLE app;") {
		m.t.Errorf("the roles are %v %s", err, text)
	}
}

// A dump is restored once, only into an empty database, and matches its description.
func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	server := newDumpJob(t, "postgresql")
	server.login("app", credentials["password"], `CREATE SCHEMA "Odd'\ö"; CREATE TABLE "Odd'\ö"."Ta""ble" AS SELECT 1 AS a;
		CREATE VIEW seen AS SELECT id FROM orders; CREATE FUNCTION one() RETURNS int LANGUAGE sql AS 'SELECT 1';
		CREATE UNLOGGED TABLE light (); CREATE SEQUENCE s; CREATE EXTENSION pgcrypto; SELECT lo_from_bytea(7, 'large')`)
	before := server.query(checksum)
	for name, c := range map[string]struct{ env, location string }{
		"custom":               {"", "/app.dump"},
		"custom, uncompressed": {"COMPRESSION=0 VERIFY=none", "/app.dump"},
		"custom, by a restore": {"VERIFY=restore", "/app.dump"},
		"plain, by a restore":  {"FORMAT=plain VERIFY=restore", "/app.sql.gz"},
		"plain, uncompressed":  {"FORMAT=plain COMPRESSION=0", "/app.sql"},
		"directory":            {"FORMAT=directory VERIFY=restore", ""},
		"directory, and roles": {"FORMAT=directory GLOBALS=true COMPRESSION=9", ""},
		"custom, and roles":    {"GLOBALS=true", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := server.job(t)
			m.set(c.env)
			got := m.dumpTo("20261101T0200", c.location)
			if verified := m.env["VERIFY"]; got.Verified != verified && (verified != "" || got.Verified != "list") {
				t.Errorf("it is verified by %q", got.Verified)
			}
			other := m.into(t, name, "")
			for range 2 { // the second time it is already restored
				other.restores(got.Name, checksum, before)
			}
			if after := other.query(`SELECT one() || ' ' || count(*) FROM seen, "Odd'\ö"."Ta""ble"`); after != "1 1000" {
				t.Errorf("there is %s", after)
			}
			m.into(t, name, "20261101T0300").refuses("restore.sh", "there is no dump")
			if m.env["GLOBALS"] == "true" {
				m.hasRoles("20261101T0200")
			}
		})
	}
}

// Concurrent writes are either in the dump and counted, or neither.
func TestDumpVerificationUsesOneSnapshot(t *testing.T) {
	t.Parallel()
	server := newDumpJob(t, "postgresql")
	m := server.job(t)
	m.env["VERIFY"] = "restore"
	m.query("ALTER ROLE app SET idle_in_transaction_session_timeout = '100ms'; ALTER ROLE app SET statement_timeout = '5s'")
	m.program("pg_dump", `[ "$1" = --version ] || { sleep 0.5; `+
		`psql --quiet --dbname="host=`+server.sockets+` port=$PORT user=postgres dbname=app" `+
		`--command="INSERT INTO orders VALUES (5000, 'late')"; } && real "$@"`)
	m.dump("1")
	if got := m.query("SELECT count(*) FROM orders"); got != "1001" {
		t.Errorf("nothing was written meanwhile: there are %s", got)
	}
}

// The dumped roles can be loaded into another server.
func TestGlobalsAreRestored(t *testing.T) {
	t.Parallel()
	m := newDumpJob(t, "postgresql")
	m.query("CREATE ROLE reader; GRANT reader TO app")
	m.env["GLOBALS"] = "true"
	m.dump("1")
	other := startPrimary(t, "postgresql")
	out, err := other.script(t.Context(), "psql", "--host="+other.env["SOCKETS"], "--port="+other.port(), "--username=postgres",
		"--dbname=app", "--file="+m.env["BACKUPS"]+"/1/%globals.sql").CombinedOutput()
	if got := other.query("SELECT pg_has_role('app', 'reader', 'member')"); got != "t" || err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A dump can have several databases, with any names.
func TestDumpOfSeveralDatabases(t *testing.T) {
	t.Parallel()
	server := newPrimary(t, "postgresql")
	server.env["DATABASE"] = `host=nowhere/ö'"\`
	server.mustRun("init.sh")
	server.start()
	server.login("app", credentials["password"], fill)
	server.env["HOST"], server.env["PORT"] = "127.0.0.1", server.port()
	m := server.job(t)
	before := m.query(checksum)
	if got := m.dump("odd"); got.Location != "odd/host%3Dnowhere%2F%C3%B6%27%22%5C.dump" {
		t.Errorf("it is at %s", got.Location)
	}
	other := m.into(t, "app", "odd")
	other.restores("odd", checksum, before)
	m.query("CREATE DATABASE second OWNER app")
	m.query("CREATE DATABASE third OWNER app")
	m.env["DATABASE"] = "second"
	m.login("app", credentials["password"], "CREATE TABLE orders (id int, text text); INSERT INTO orders VALUES (1, 'second')")
	m.env["DATABASES"], m.env["VERIFY"] = "second third", "restore"
	if got := m.dump("several"); got.Location != "several" || got.SizeBytes < 1000 {
		t.Errorf("the result is %+v", got)
	}
	other = m.into(t, "fourth", "several")
	other.refuses("restore.sh", "has none of the name fourth")
	other = m.into(t, "second", "several")
	other.restores("several", "SELECT text FROM orders", "second")
}

// A damaged dump is not restored, and the database stays empty.
func TestDamagedDumpIsNotRestored(t *testing.T) {
	t.Parallel()
	server := newDumpJob(t, "postgresql")
	for format, file := range map[string]string{"custom": "app.dump", "plain": "app.sql.gz", "directory": "app.dir/toc.dat"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			m := server.job(t)
			m.env["FORMAT"] = format
			m.dump("a")
			other := m.into(t, format, "a")
			file := filepath.Join(m.env["BACKUPS"], "a", file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text[len(text)-100] ^= 1
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			other.refuses("restore.sh", "is not what it was when it was written")
			// The checksums match the damaged data.
			if err := os.WriteFile(file, text[:len(text)-200], 0o600); err != nil {
				t.Fatal(err)
			}
			m.mustRun("bash", "-c", `cd "$BACKUPS/a" && sha256sum $(sed 's/.* //' SHA256SUMS) >new && mv new SHA256SUMS`)
			other.refuses("restore.sh", "cannot be restored")
			if _, err := os.Stat(other.env["PGDATA"]); err == nil {
				t.Error("there is a data directory")
			}
		})
	}
}

// Verification by restoring has the permissions of a restore: a dump that cannot be restored with them is rejected.
func TestVerificationHasRestorePermissions(t *testing.T) {
	t.Parallel()
	for engine, sql := range map[string]string{
		"postgresql": "CREATE EXTENSION dblink", "mariadb": "CREATE DEFINER = root@localhost VIEW theirs AS SELECT 1",
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			m := newDumpJob(t, engine)
			m.query(sql)
			m.set("NAME=a VERIFY=restore")
			m.refuses("dump.sh", "cannot be restored")
			m.has()
		})
	}
}

// A server that is briefly unavailable is waited for.
func TestDumpWaitsForServer(t *testing.T) {
	t.Parallel()
	for engine, sum := range map[string]string{"postgresql": checksum, "mariadb": checksumMariaDB} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			server := startPrimary(t, engine)
			server.login("app", credentials["password"], fillWith[engine])
			server.env["HOST"], server.env["PORT"] = "127.0.0.1", server.port()
			m := server.job(t)
			want := m.query(sum)
			server.running.stop()
			m.env["PATIENCE"], m.env["NAME"] = "60", "a"
			m.program("sleep", `: >"$SOCKETS/waiting"; real "$@"`)
			cmd := m.script(t.Context(), "dump.sh")
			log := &logs{}
			cmd.Stderr = log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			m.appears(m.env["SOCKETS"] + "/waiting") // the first attempt has failed
			server.start()
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, log)
			}
			m.into(t, "other", "a").restores("a", sum, want)
		})
	}
}
