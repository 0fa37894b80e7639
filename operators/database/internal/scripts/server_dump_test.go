//go:build linux

package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// everything creates a server with a second database, roles, grants, settings, an untrusted extension, a large object, row
// security, and a constraint that calls a function of the application.
const everything = `
	CREATE ROLE billing LOGIN PASSWORD 'bill' VALID UNTIL '2037-01-01' CONNECTION LIMIT 7;
	CREATE ROLE reader; CREATE ROLE "odd ""R"" \ö";
	GRANT reader TO billing; GRANT "odd ""R"" \ö" TO app WITH ADMIN OPTION; ALTER ROLE billing SET work_mem = '7MB';
	CREATE EXTENSION pg_stat_statements; CREATE SCHEMA private AUTHORIZATION billing;
	CREATE TABLE private.invoices (id int PRIMARY KEY); ALTER TABLE private.invoices OWNER TO billing;
	INSERT INTO private.invoices VALUES (1), (2); GRANT SELECT ON private.invoices TO reader;
	GRANT USAGE ON SCHEMA private TO reader;
	ALTER TABLE private.invoices ENABLE ROW LEVEL SECURITY; ALTER TABLE private.invoices FORCE ROW LEVEL SECURITY;
	CREATE POLICY own ON private.invoices TO reader USING (id = 1);
	SELECT lo_from_bytea(7, 'large'); GRANT SELECT ON LARGE OBJECT 7 TO reader;
	ALTER DEFAULT PRIVILEGES FOR ROLE billing GRANT SELECT ON TABLES TO reader`

// everywhere lists all roles with the hashes of their passwords, memberships and settings, and the objects of a database
// with their owners and privileges. The passwords of CREDENTIALS are set at each start.
const everywhere = `SELECT string_agg(line, E'\n' ORDER BY line COLLATE "C") FROM (
	SELECT row('role', rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls,
		rolconnlimit, rolvaliduntil, CASE WHEN rolname NOT IN ('app', 'database_dump', 'replication') THEN rolpassword END)::text
		AS line FROM pg_authid
	UNION ALL SELECT row('member', roleid::regrole, member::regrole, admin_option)::text FROM pg_auth_members
	UNION ALL SELECT row('set', setrole::regrole, datname, setconfig)::text
		FROM pg_db_role_setting LEFT JOIN pg_database d ON d.oid = setdatabase
	UNION ALL SELECT row('database', datname, datdba::regrole, encoding, datcollate, datconnlimit,
		ARRAY(SELECT unnest(datacl)::text ORDER BY 1))::text FROM pg_database
	UNION ALL SELECT row('relation', oid::regclass, relowner::regrole, relkind, relrowsecurity, relforcerowsecurity,
		ARRAY(SELECT unnest(relacl)::text ORDER BY 1))::text FROM pg_class WHERE relkind NOT IN ('t', 'i')
	UNION ALL SELECT row('column', attrelid::regclass, attname, attacl)::text FROM pg_attribute WHERE attacl IS NOT NULL
	UNION ALL SELECT row('schema', nspname, nspowner::regrole, ARRAY(SELECT unnest(nspacl)::text ORDER BY 1))::text
		FROM pg_namespace WHERE nspname !~ '^pg_t'
	UNION ALL SELECT row('function', oid::regprocedure, proowner::regrole, proacl)::text FROM pg_proc
	UNION ALL SELECT row('object', oid, lomowner::regrole, md5(lo_get(oid)), coalesce(lomacl, acldefault('L', lomowner)))::text
		FROM pg_largeobject_metadata
	UNION ALL SELECT row('default', defaclrole::regrole, defaclobjtype, defaclacl)::text FROM pg_default_acl
	UNION ALL SELECT row('policy', polname, polroles::regrole[], pg_get_expr(polqual, polrelid))::text FROM pg_policy
	UNION ALL SELECT row('extension', extname, extowner::regrole, extversion)::text FROM pg_extension) AS lines`

// hasAll compares the server and its database with a result of everywhere.
func (m *member) hasAll(want string) {
	m.t.Helper()
	lines, wanted := strings.Split(m.query(everywhere), "\n"), strings.Split(want, "\n")
	for _, line := range lines {
		if !slices.Contains(wanted, line) {
			m.t.Errorf("there was no %s", line)
		}
	}
	for _, line := range wanted {
		if !slices.Contains(lines, line) {
			m.t.Errorf("there is no %s", line)
		}
	}
}

// The dump of a whole server has all databases with their owners, privileges and settings, the roles with their passwords,
// and extensions. A restore makes the same server.
func TestServerDumpIsComplete(t *testing.T) {
	t.Parallel()
	server := newDumpJob(t, "postgresql")
	server.query(everything)
	server.query(`CREATE DATABASE "Bill'ing" OWNER billing ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0 CONNECTION LIMIT 9`)
	server.query(`ALTER DATABASE "Bill'ing" SET lock_timeout = '3s'`)
	server.query(`ALTER ROLE reader IN DATABASE "Bill'ing" SET lock_timeout = '4s'`)
	server.query(`REVOKE CONNECT ON DATABASE "Bill'ing" FROM PUBLIC; GRANT CONNECT ON DATABASE "Bill'ing" TO reader`)
	server.login("app", credentials["password"], `CREATE FUNCTION ok(int) RETURNS boolean LANGUAGE plpgsql AS
		$$ BEGIN IF current_setting('is_superuser')::bool THEN RAISE EXCEPTION 'superuser'; END IF; RETURN true; END $$;
		CREATE TABLE checked (i int CHECK (ok(i))); INSERT INTO checked VALUES (1)`)
	second := server.job(t)
	second.env["DATABASE"] = "Bill'ing"
	second.query(`CREATE TABLE euro AS SELECT chr(233) AS e; ALTER TABLE euro OWNER TO billing; CREATE EXTENSION dblink`)
	before := server.query(checksum)
	server.set("NAME=a SCOPE=server")
	server.refuses("dump.sh", `GRANT CONNECT ON DATABASE "Bill'ing" TO database_dump`)
	server.query(`GRANT CONNECT ON DATABASE "Bill'ing" TO database_dump`)
	whole := server.query(everywhere)
	for _, format := range []string{"custom", "directory"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			m := server.job(t)
			m.set("SCOPE=server VERIFY=restore FORMAT=" + format)
			if got := m.dump("a"); got.Verified != "restore" || got.Location != "a" {
				t.Errorf("the result is %+v", got)
			}
			_ = filepath.WalkDir(m.env["BACKUPS"]+"/a", func(path string, d os.DirEntry, _ error) error {
				if info, err := d.Info(); err != nil || info.Mode()&0o077 != 0 {
					t.Errorf("%s is readable by others: %v %v", path, info.Mode(), err)
				}
				return nil
			})
			other := m.into(t, "app", "a")
			other.restores("a", checksum, before)
			other.hasAll(whole)
			if got := other.query("SELECT count(*) FROM checked, private.invoices"); got != "2" {
				t.Errorf("the tables have %s", got)
			}
			if got := other.login("app", credentials["password"], "SELECT count(*) FROM orders"); got != "1000" {
				t.Errorf("the application gets %s", got)
			}
			if got := other.login("billing", "bill", "SELECT count(*) FROM pg_class WHERE relname = 'invoices'"); got != "1" {
				t.Errorf("a restored role gets %s", got)
			}
			other.env["DATABASE"] = "Bill'ing"
			other.hasAll(second.query(everywhere))
			if got := other.query("SELECT ascii(e) || current_setting('lock_timeout') FROM euro"); got != "2333s" {
				t.Errorf("the second database has %s", got)
			}
			again := m.into(t, "none", "a")
			again.refuses("restore.sh", "has no database none: set spec.databaseName")
			again.env["DATABASE"], again.env["DATABASE_USER"] = "app", "none"
			again.refuses("restore.sh", "has no role none: set spec.username")
		})
	}
}

// A dump that cannot have everything fails.
func TestIncompleteServerDumpIsRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, says string }{
		"subscription": {
			"CREATE SUBSCRIPTION s CONNECTION 'host=nowhere' PUBLICATION p WITH (connect = false)", "has a subscription s,",
		},
		"user mapping": {
			"CREATE EXTENSION postgres_fdw; CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw; " +
				"CREATE USER MAPPING FOR app SERVER s OPTIONS (password 'secret')", "has a user mapping of app for server s,",
		},
		"closed database": {"CREATE DATABASE closed ALLOW_CONNECTIONS false", "cannot connect to database closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newDumpJob(t, "postgresql")
			m.query(c.sql)
			m.set("NAME=a SCOPE=server")
			m.refuses("dump.sh", c.says)
			m.has()
		})
	}
}

// A plain dump with a command of psql is not restored, wherever the command is. Everything else is.
func TestPlainDumpsAreFiltered(t *testing.T) {
	t.Parallel()
	m := newDumpJob(t, "postgresql")
	m.login("app", credentials["password"], `CREATE FUNCTION f() RETURNS text LANGUAGE plpgsql AS
		$fn$ BEGIN /* \! */ RETURN '\! '; -- \q
		END $fn$; CREATE FUNCTION g(i int) RETURNS int LANGUAGE SQL BEGIN ATOMIC SELECT CASE WHEN i = 1 THEN 2 END; SELECT 3; END;
		CREATE TABLE "odd \name" (a text DEFAULT E'\\x\'' , b text DEFAULT 'C:\x'); COMMENT ON TABLE orders IS 'a\b; -- "';
		INSERT INTO orders VALUES (5000, E'\\! touch\n\\.\t\\N')`)
	m.set("FORMAT=plain COMPRESSION=0 VERIFY=restore")
	m.dump("good")
	m.into(t, "app", "good").restores("good", checksum, m.query(checksum))
	touch := m.home() + "/touched"
	do := `\! touch ` + touch
	m.dumped("bad/app.sql", do+"\n")
	m.dumped("bad/about.json", `{"name":"bad"}`)
	m.mustRun("bash", "-c", `cd "$BACKUPS/bad" && sha256sum app.sql >SHA256SUMS`)
	m.into(t, "app", "bad").refuses("restore.sh", "cannot be restored")
	if _, err := os.Stat(touch); err == nil {
		t.Error("a command was executed")
	}
	for name, text := range map[string]string{
		"line":                  do,
		"after a statement":     `SELECT 1; ` + do,
		"in a statement":        `SELECT 1 ` + do,
		"copy":                  `\copy orders to program 'touch ` + touch + `'`,
		"output":                `\o ` + touch,
		"after quotes":          `SELECT 'a''b', "c""d", $x$ \q $x$, E'\'' ` + do,
		"not standard":          "SET standard_conforming_strings = off;\nSELECT '\\'; ' " + do,
		"not standard, 2 lines": "SET standard_conforming_strings = off;\nSELECT 'a\\\n'' " + do,
		"comment":               "/* /* */ */ " + do,
		"carriage return":       "SELECT 1 -- \r" + do,
		"the same after quotes": "SELECT '\n' -- \r" + do,
		"in a function":         "CREATE FUNCTION h() LANGUAGE SQL BEGIN ATOMIC\nCOPY x FROM stdin;\n" + do + "\n\\.\nEND;",
		"in parentheses":        "SELECT (\nCOPY orders FROM stdin;\n" + do + "\n\\.\n);",
		"copy to":               "COPY orders TO stdout; -- FROM stdin;\n" + do + "\n\\.",
		"other end of copy":     "COPY orders FROM stdin;\n\\.\r\n" + do + "\n\\.",
		"no end of copy":        "COPY orders FROM stdin;\n",
		"no end of a string":    "SELECT '",
		"restricted":            "\\restrict x\n\\unrestrict x\n" + do,
		"number and string":     `SELECT 1E'\' ` + do + ` '`,
		"number and quote":      `SELECT 1a$$ b$$ ` + do,
		"parameter and quote":   `SELECT $1a$$ b$$ ` + do,
		"name and string":       `SELECT öE'\' ` + do + ` '`,
		"zero byte":             "SELECT 1 -- \x00\n'\n" + do + "\n--'",
		"variable":              "SELECT :'DBNAME' " + do,
	} {
		for _, awk := range []string{"gawk", "mawk", "original-awk", "busybox awk"} {
			if _, err := exec.LookPath(strings.Fields(awk)[0]); err != nil {
				continue
			}
			m.program("awk", awk+` "$@"`)
			m.dumped("text", text+"\n")
			out, err := m.script(t.Context(), "bash", "-c", `set -euo pipefail; . "$0"; filtered "$BACKUPS/text" |
				psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --host="$1" --port="$PORT" --username=postgres --dbname=app`,
				m.dir+"/scripts/load.sh", m.sockets).CombinedOutput()
			if _, touched := os.Stat(touch); touched == nil || err == nil {
				t.Fatalf("%s, %s: it was not refused, but %v:\n%s", name, awk, err, out)
			}
		}
	}
	m.program("pg_dump", `if [ "$1" = --version ]; then real "$@"; exit; fi
		for a; do case $a in --file=*) file=${a#--file=} ;; esac; done; real "$@"; sed -i "1i \\\\\\\\! touch `+touch+`" "$file"`)
	m.env["NAME"] = "verified"
	if why := m.refused("dump.sh"); !strings.Contains(why, "cannot be restored") {
		t.Errorf("it says %q", why)
	}
	if _, err := os.Stat(touch); err == nil {
		t.Error("verification executed it")
	}
}
