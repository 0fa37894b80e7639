//go:build linux

package database_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	"github.com/homeostat-dev/homeostat/operators/database/internal/runner"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// An engine has the differences between the servers from a user's view.
type engine struct {
	name     v1.Engine
	version  string // prints the version of the installed server
	programs []string
	remote   string // runs the statements of the argument as the application, with the variables of client
	local    []string
	table    string   // creates the empty table of orders
	fill     string   // inserts the orders from %d to %d
	sum      string   // returns the number of orders and a checksum
	replica  string   // returns 1 on a replica
	session  string   // runs the statements of the standard input in one connection
	more     []string // statements that the superuser runs, for objects beside those of the application
	moreSum  string   // returns "3 billing" if they exist
}

var engines = []engine{
	{
		name: v1.PostgreSQL, version: `postgres --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/'`,
		programs: []string{"postgres", "initdb", "pg_basebackup", "pg_dump", "psql"},
		remote: `PGPASSWORD=$PASSWORD psql --no-psqlrc -v ON_ERROR_STOP=1 -h "$HOST" -p "$PORT" -U "$USERNAME" -d "$DATABASE" ` +
			`-qtAc "$1"`,
		local:   []string{"psql", "--no-psqlrc", "-h", "/run/database", "-U", "postgres", "-d", "app", "-qtAc"},
		table:   "CREATE TABLE orders (id int PRIMARY KEY, text text)",
		fill:    "INSERT INTO orders SELECT i, md5(i::text) FROM generate_series(%s, %s) AS i",
		sum:     "SELECT count(*) || ' ' || md5(string_agg(id || ':' || text, ',' ORDER BY id)) FROM orders",
		replica: "SELECT pg_is_in_recovery()::int",
		session: `PGPASSWORD=$PASSWORD psql --no-psqlrc -v ON_ERROR_STOP=1 -h "$HOST" -p "$PORT" -U "$USERNAME" -d "$DATABASE" ` +
			`-qtA`,
		more: []string{
			"CREATE ROLE billing LOGIN PASSWORD 'x' CONNECTION LIMIT 3", "CREATE DATABASE billing OWNER billing",
			"CREATE ROLE reader IN ROLE billing", "ALTER ROLE reader SET work_mem = '3MB'",
		},
		moreSum: "SELECT rolconnlimit || ' ' || datname FROM pg_database JOIN pg_roles r ON r.oid = datdba " +
			"WHERE rolname = 'billing' AND pg_has_role('reader', 'billing', 'MEMBER')",
	},
	{
		name: v1.MariaDB, version: `mariadbd --version | sed -E 's/.* Ver ([0-9]+\.[0-9]+).*/\1/'`,
		programs: []string{"mariadbd", "mariadb-install-db", "mariadb-dump", "mariadb"},
		remote: `MYSQL_PWD=$PASSWORD mariadb --no-defaults -h "$HOST" -P "$PORT" -u "$USERNAME" -D "$DATABASE" ` +
			`-BNe "$1"`,
		local:   []string{"mariadb", "--no-defaults", "--socket=/run/database/server.sock", "-u", "root", "-D", "app", "-BNe"},
		table:   "CREATE TABLE orders (id int PRIMARY KEY, text text)",
		fill:    "INSERT INTO orders SELECT seq, md5(seq) FROM seq_1_to_1000 WHERE seq BETWEEN %s AND %s",
		sum:     "SELECT CONCAT(COUNT(*), ' ', MD5(GROUP_CONCAT(id, ':', text ORDER BY id))) FROM orders",
		replica: "SELECT @@read_only",
		session: `MYSQL_PWD=$PASSWORD mariadb --no-defaults -h "$HOST" -P "$PORT" -u "$USERNAME" -D "$DATABASE" -BN --unbuffered`,
		more: []string{
			"CREATE DATABASE billing", "CREATE TABLE billing.t AS SELECT seq FROM seq_1_to_3",
			"CREATE USER billing IDENTIFIED BY 'x'", "GRANT ALL ON billing.* TO billing", "CREATE ROLE reader",
		},
		moreSum: "SELECT CONCAT(COUNT(*), ' ', (SELECT REGEXP_SUBSTR(GRANTEE, '[a-z]+') " +
			"FROM information_schema.SCHEMA_PRIVILEGES WHERE TABLE_SCHEMA = 'billing' LIMIT 1)) FROM billing.t",
	},
}

// forEngines runs a test with each engine.
func forEngines(t *testing.T, test func(w *world)) {
	t.Parallel()
	for _, e := range engines {
		t.Run(string(e.name), func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			k.Timeout = 5 * time.Minute // three servers share the processors with other tests
			w := &world{K: k, t: t, engine: e, runner: runner.Start(t, k, e.programs...)}
			start(k)
			k.Run(database.NewRoles())
			test(w)
		})
	}
}

// A world has the operators, and nodes that run containers as processes.
type world struct {
	*testkit.K

	t      *testing.T
	engine engine
	runner *runner.Runner
}

// database returns a Database of the installed version.
func (w *world) database(name string, replicas int32) *v1.Database {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "sh", "-c", w.engine.version)
	cmd.Env = []string{"PATH=" + runner.Path()}
	version, err := cmd.Output()
	if err != nil {
		w.t.Fatal(err)
	}
	db := newDatabase(name)
	db.Spec.Engine = w.engine.name
	db.Spec.Version = strings.TrimSpace(string(version))
	db.Spec.Replicas = &replicas
	return db
}

// client starts a pod with the Secret of a database in its environment, as an application does.
func (w *world) client(db *v1.Database) {
	w.t.Helper()
	var env []corev1.EnvVar
	for _, key := range []string{"host", "port", "database", "username", "password"} {
		env = append(env, corev1.EnvVar{Name: strings.ToUpper(key), ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: desired.CredentialsName(db)}, Key: key,
			},
		}})
	}
	app := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: db.Name + "-client"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "client", Image: db.Status.Image, Command: []string{"sleep", "infinity"}, Env: env,
		}}},
	}
	w.Apply(app)
	w.Eventually(app, testkit.Condition("Ready", metav1.ConditionTrue))
	w.reach(db)
}

// reach waits until the endpoint of a ready database accepts connections: the network may lag behind the operator.
func (w *world) reach(db *v1.Database) {
	w.t.Helper()
	w.Wait("the endpoint reaches the database", func(context.Context) error {
		_, err := w.shell(db, w.engine.remote, "SELECT 1")
		return err
	})
}

// shell runs a script in the client of a database.
func (w *world) shell(db *v1.Database, script string, args ...string) (string, error) {
	argv := append([]string{"bash", "-euo", "pipefail", "-c", script, "client"}, args...)
	out, err := w.runner.Exec(db.Name+"-client", "client", argv...)
	return strings.TrimSpace(out), err
}

// query runs statements over the endpoint, in a new connection.
func (w *world) query(db *v1.Database, sql string) string {
	w.t.Helper()
	out, err := w.shell(db, w.engine.remote, sql)
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return out
}

// fill inserts 1,000 orders and returns their checksum.
func (w *world) fill(db *v1.Database) string {
	w.t.Helper()
	w.query(db, w.engine.table)
	w.query(db, fmt.Sprintf(w.engine.fill, "1", "1000"))
	return w.query(db, w.engine.sum)
}

// member runs statements on one member, over its socket.
func (w *world) member(db *v1.Database, ordinal int, sql string) (string, error) {
	out, err := w.runner.Exec(desired.PodName(db, ordinal), desired.Container, append(w.engine.local, sql)...)
	return strings.TrimSpace(out), err
}

// has waits until a member has the orders with this checksum.
func (w *world) has(db *v1.Database, ordinal int, want string) {
	w.t.Helper()
	w.Wait(fmt.Sprintf("member %d has the same rows", ordinal), func(context.Context) error {
		got, err := w.member(db, ordinal, w.engine.sum)
		if err == nil && got != want {
			err = fmt.Errorf("it has %s, want %s", got, want)
		}
		return err
	})
}

// Hard scenario 2e.1: 1,000 rows are written over 200 connections through the endpoint. All of them are on the primary and,
// within seconds, on each replica: the members are one database.
func TestRealReplication(t *testing.T) {
	forEngines(t, func(w *world) {
		t := w.t
		db := w.database("orders", 3)
		w.Apply(db)
		w.Eventually(db, testkit.Ready(), members(3))
		w.client(db)
		w.query(db, w.engine.table)
		insert := fmt.Sprintf(w.engine.fill, "$((5 * $1 - 4))", "$((5 * $1))")
		if _, err := w.shell(db, "insert() { set -- \""+insert+"\"; "+w.engine.remote+"; }; export -f insert; "+
			"seq 200 | xargs -P 4 -I{} bash -euc 'insert {}'"); err != nil {
			t.Fatal(err)
		}
		want, err := w.member(db, 0, w.engine.sum)
		if err != nil || !strings.HasPrefix(want, "1000 ") {
			t.Fatalf("the primary has %s rows: %v", want, err)
		}
		for ordinal := 1; ordinal < 3; ordinal++ {
			w.has(db, ordinal, want)
		}
		for range 10 { // the Service for reading selects replicas only, and they reject writes
			if got := w.query(db, w.engine.sum); got != want {
				t.Errorf("the endpoint says %s, want %s", got, want)
			}
			if out, err := w.shell(db, "HOST=orders-db-ro; "+w.engine.remote, w.engine.replica); err != nil || out != "1" {
				t.Errorf("the Service for reading reaches a server that is no replica: %s, %v", out, err)
			}
			if out, err := w.shell(db, "HOST=orders-db-ro; "+w.engine.remote, "DELETE FROM orders"); err == nil ||
				!strings.Contains(err.Error(), "read-only") {
				t.Errorf("a replica does not refuse to write: %s, %v", out, err)
			}
		}

		w.runner.Kill(desired.PodName(db, 0)) // acknowledged writes survive a crash and are replicated
		w.Wait("the primary writes again", func(context.Context) error {
			_, err := w.shell(db, w.engine.remote, "DELETE FROM orders WHERE id = 1000")
			return err
		})
		want, err = w.member(db, 0, w.engine.sum)
		if err != nil || !strings.HasPrefix(want, "999 ") {
			t.Fatalf("the primary has %s rows: %v", want, err)
		}
		for ordinal := 1; ordinal < 3; ordinal++ {
			w.has(db, ordinal, want)
		}
	})
}

// Hard scenario 2e.3: with Retain the successor of a Database has its data and password, and with Delete nothing is left.
func TestRealRetain(t *testing.T) {
	forEngines(t, func(w *world) {
		t := w.t
		db := w.database("orders", 1)
		w.Apply(db)
		w.Eventually(db, testkit.Ready())
		w.client(db)
		want := w.fill(db)
		credentials := secret(desired.CredentialsName(db))
		w.Get(credentials)

		w.Delete(db)
		w.Eventually(db, testkit.Gone())
		w.Eventually(pod(desired.PodName(db, 0)), testkit.Gone())
		again := w.database("orders", 1)
		w.Apply(again)
		w.Eventually(again, testkit.Ready())
		w.reach(again)
		if got := w.query(again, w.engine.sum); got != want { // the client has the password of the first one
			t.Errorf("the data are %s, want %s", got, want)
		}
		now := secret(credentials.Name)
		w.Get(now)
		if now.UID != credentials.UID || string(now.Data["password"]) != string(credentials.Data["password"]) {
			t.Error("there is another Secret")
		}

		w.Update(again, func() { again.Spec.DeletionPolicy = v1.DeletionDelete })
		w.Eventually(again, testkit.Ready())
		w.Delete(again)
		w.Eventually(again, testkit.Gone())
		for _, left := range []client.Object{
			secret(credentials.Name), claim(desired.ClaimName(db, 0)), claim(desired.BackupName(db)), set(desired.SetName(db)),
			service(desired.SetName(db)), cron(desired.BackupName(db)), pod(desired.PodName(db, 0)),
		} {
			w.Eventually(left, testkit.Gone())
		}
	})
}

// A dump of the CronJob's Job is the source of another Database.
func TestRealBackup(t *testing.T) {
	forEngines(t, func(w *world) {
		db := w.database("orders", 1)
		w.Apply(db)
		w.Eventually(db, testkit.Ready())
		w.client(db)
		want := w.fill(db)
		schedule := cron(desired.BackupName(db))
		w.Eventually(schedule, testkit.Exists())
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: schedule.Name + "-1", Labels: schedule.Spec.JobTemplate.Labels},
			Spec:       schedule.Spec.JobTemplate.Spec,
		}
		w.Apply(job)
		w.Eventually(job, testkit.Condition("Complete", metav1.ConditionTrue))

		w.query(db, "DROP TABLE orders")
		other := w.database("copy", 2)
		other.Spec.BootstrapFrom = &v1.BootstrapFrom{BackupRef: &v1.BackupReference{ClaimName: desired.BackupName(db)}}
		w.Apply(other)
		w.Eventually(other, testkit.Ready(), members(2))
		w.client(other)
		if got := w.query(other, w.engine.sum); got != want {
			w.t.Errorf("the data are %s, want %s", got, want)
		}
		w.has(other, 1, want)
	})
}

// A primary that lost its volume refuses to start, and gets all rows from a replica when the user asks for it.
func TestRealRecoverFromMember(t *testing.T) {
	forEngines(t, func(w *world) {
		db := w.database("orders", 2)
		w.Apply(db)
		w.Eventually(db, testkit.Ready(), members(2))
		w.client(db)
		want := w.fill(db)
		w.has(db, 1, want)
		data := claim(desired.ClaimName(db, 0))
		w.Get(data)
		lost := data.UID
		w.Delete(data)
		w.Delete(pod(desired.PodName(db, 0)))
		w.Eventually(data, testkit.Match("another one", func(c *corev1.PersistentVolumeClaim) bool { return c.UID != lost }))
		w.Eventually(db, testkit.Match("the three ways out", func(db *v1.Database) bool {
			c := conditions.Get(db, status.Degraded)
			return c != nil && strings.Contains(c.Message, "recover-from-member") && strings.Contains(c.Message, "begin-anew")
		}))
		w.Update(db, func() { db.Annotations = map[string]string{"techoral.com/recover-from-member": "1"} })
		w.Eventually(db, testkit.Ready(), members(2))
		w.reach(db)
		if got := w.query(db, w.engine.sum); got != want {
			w.t.Errorf("the data are %s, want %s", got, want)
		}
		w.query(db, "DELETE FROM orders WHERE id = 1000")
		want = w.query(db, w.engine.sum)
		w.has(db, 1, want)
	})
}
