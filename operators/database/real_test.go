//go:build linux

package database_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/runner"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A world has the operators, and nodes whose containers really run.
type world struct {
	*testkit.K

	t      *testing.T
	runner *runner.Runner
}

func newWorld(t *testing.T) *world {
	t.Helper()
	k := testkit.New(t)
	k.Timeout = 90 * time.Second
	w := &world{K: k, t: t, runner: runner.Start(t, k, "postgres", "initdb", "pg_basebackup", "pg_dump", "psql")}
	start(k)
	k.Run(database.NewRoles())
	return w
}

// database is one of the version that is installed.
func (w *world) database(name string, replicas int32) *v1.Database {
	w.t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		w.t.Skip("PostgreSQL is not where Debian has it, so its version is not known")
	}
	db := newDatabase(name)
	db.Spec.Version, db.Spec.Replicas = filepath.Base(filepath.Dir(found[len(found)-1])), &replicas
	return db
}

// client starts a pod that knows of a database what is in its Secret, as an application does.
func (w *world) client(db *v1.Database) {
	w.t.Helper()
	var env []corev1.EnvVar
	for name, key := range map[string]string{
		"PGHOST": "host", "PGPORT": "port", "PGDATABASE": "database", "PGUSER": "username", "PGPASSWORD": "password",
	} {
		env = append(env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: desired.CredentialsName(db)}, Key: key,
		}}})
	}
	app := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: db.Name + "-client"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "client", Image: "postgres:" + db.Spec.Version, Command: []string{"sleep", "infinity"}, Env: env,
		}}},
	}
	w.Apply(app)
	w.Eventually(app, testkit.Condition("Ready", metav1.ConditionTrue))
}

// shell runs a script in the client of a database.
func (w *world) shell(db *v1.Database, script string) (string, error) {
	out, err := w.runner.Exec(db.Name+"-client", "client", "bash", "-euo", "pipefail", "-c", script)
	return strings.TrimSpace(out), err
}

// query asks a database over its endpoint, in a new connection.
func (w *world) query(db *v1.Database, sql string) string {
	w.t.Helper()
	out, err := w.shell(db, "psql --no-psqlrc -qtAc \""+sql+"\"")
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return out
}

// member asks one member itself, over its socket.
func (w *world) member(db *v1.Database, ordinal int, sql string) (string, error) {
	out, err := w.runner.Exec(desired.PodName(db, ordinal), desired.Container,
		"psql", "--no-psqlrc", "-h", "/run/database", "-U", "postgres", "-d", "app", "-qtAc", sql)
	return strings.TrimSpace(out), err
}

// checksum is of all orders.
const checksum = "SELECT count(*) || ' ' || md5(string_agg(id || ':' || text, ',' ORDER BY id)) FROM orders"

// Hard scenario 2e.1: of 1,000 rows that are written through the endpoint, over 200 connections, all are on the primary, and
// within seconds on each replica: there is one database, and not one for each member.
func TestRealReplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database("orders", 3)
	w.Apply(db)
	w.Eventually(db, testkit.Ready(), members(3))
	w.client(db)
	w.query(db, "CREATE TABLE orders (id int PRIMARY KEY, text text)")
	const insert = `seq 200 | xargs -P 4 -I{} psql --no-psqlrc -qc \
		"INSERT INTO orders SELECT i, md5(i::text) FROM generate_series(5 * {} - 4, 5 * {}) AS i"`
	if _, err := w.shell(db, insert); err != nil {
		t.Fatal(err)
	}
	want, err := w.member(db, 0, checksum)
	if err != nil || !strings.HasPrefix(want, "1000 ") {
		t.Fatalf("the primary has %s rows: %v", want, err)
	}
	for ordinal := 1; ordinal < 3; ordinal++ {
		w.Wait(fmt.Sprintf("member %d has the same rows", ordinal), func(context.Context) error {
			got, err := w.member(db, ordinal, checksum)
			if err == nil && got != want {
				err = fmt.Errorf("it has %s, want %s", got, want)
			}
			return err
		})
		if out, err := w.member(db, ordinal, "INSERT INTO orders VALUES (0, 'x')"); err == nil {
			t.Errorf("member %d accepts writes: %s", ordinal, out)
		}
	}
	for range 10 { // connections for reading go to replicas only
		if got := w.query(db, checksum); got != want {
			t.Errorf("the endpoint says %s, want %s", got, want)
		}
		out, err := w.shell(db, "PGHOST=orders-db-ro psql --no-psqlrc -qtAc 'SELECT pg_is_in_recovery()'")
		if err != nil || out != "t" {
			t.Errorf("the Service for reading leads to a server that is no replica: %s, %v", out, err)
		}
	}
}

// Hard scenario 2e.3: with Retain the data and the password that a Database leaves are those of the next one of its name,
// and with Delete nothing is left.
func TestRealRetain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database("orders", 1)
	w.Apply(db)
	w.Eventually(db, testkit.Ready())
	w.client(db)
	w.query(db, "CREATE TABLE orders AS SELECT i AS id, md5(i::text) AS text FROM generate_series(1, 1000) AS i")
	want := w.query(db, checksum)
	credentials := secret(desired.CredentialsName(db))
	w.Get(credentials)

	w.Delete(db)
	w.Eventually(db, testkit.Gone())
	w.Eventually(pod(desired.PodName(db, 0)), testkit.Gone())
	again := w.database("orders", 1)
	w.Apply(again)
	w.Eventually(again, testkit.Ready())
	if got := w.query(again, checksum); got != want { // the client still has the password of the first one
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
		credentials, claim(desired.ClaimName(db, 0)), claim(desired.BackupName(db)), set(desired.SetName(db)),
		service(desired.SetName(db)), cron(desired.BackupName(db)), pod(desired.PodName(db, 0)),
	} {
		left.SetUID("")
		w.Eventually(left, testkit.Gone())
	}
}

// What the CronJob's Job dumps is what another Database begins with.
func TestRealBackup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database("orders", 1)
	w.Apply(db)
	w.Eventually(db, testkit.Ready())
	w.client(db)
	w.query(db, "CREATE TABLE orders AS SELECT i AS id, md5(i::text) AS text FROM generate_series(1, 1000) AS i")
	want := w.query(db, checksum)
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
	if got := w.query(other, checksum); got != want {
		t.Errorf("the data are %s, want %s", got, want)
	}
	w.Wait("the replica has the data, too", func(context.Context) error {
		if got, err := w.member(other, 1, checksum); err != nil || got != want {
			return errors.Join(err, fmt.Errorf("it has %s, want %s", got, want))
		}
		return nil
	})
}
