package realnodes_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The article's Database is reached by the URI of its Secret.
func TestSample(t *testing.T) {
	t.Parallel()
	w := &world{K: start(t), t: t, engine: engines[0]}
	manifest, err := os.ReadFile("../../config/samples/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	db := &v1.Database{}
	if err := yaml.UnmarshalStrict(manifest, db); err != nil {
		t.Fatal(err)
	}
	db.Namespace = ""
	w.Apply(db)
	w.Eventually(db, testkit.Ready(), members(2))
	w.client(db)
	const script = `psql "$URI" -qtAc "CREATE TABLE orders AS SELECT 'first' AS text" && psql "$URI" -qtAc 'TABLE orders'`
	if out, err := w.shell(db, script); err != nil || out != "first" {
		t.Errorf("the data are %q, %v", out, err)
	}
}

// 1,000 rows are written over 200 connections through the endpoint. All of them are on the primary and, within seconds, on
// each replica: the members are one database.
func TestReplication(t *testing.T) {
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
		w.replicated(db, "1000 ", 3)
		want := w.query(db, w.engine.sum)
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
		w.Container(pod(desired.PodName(db, 0)), desired.Container).Kill()
		w.Wait("the primary writes again", func(context.Context) error {
			_, err := w.shell(db, w.engine.remote, "DELETE FROM orders WHERE id = 1000")
			return err
		})
		w.replicated(db, "999 ", 3)
	})
}

// replicated waits until all members have the rows of the primary.
func (w *world) replicated(db *v1.Database, prefix string, n int) {
	w.t.Helper()
	want, err := w.member(db, 0, w.engine.sum)
	if err != nil || !strings.HasPrefix(want, prefix) {
		w.t.Fatalf("the primary has %s rows: %v", want, err)
	}
	for ordinal := 1; ordinal < n; ordinal++ {
		w.has(db, ordinal, want)
	}
}

// With Retain the successor of a Database has its data and password, and with Delete nothing is left.
func TestRetain(t *testing.T) {
	forEngines(t, func(w *world) {
		t := w.t
		db := w.database("orders", 1)
		w.Apply(db)
		w.Eventually(db, testkit.Ready())
		w.client(db)
		want := w.fill(db)
		credentials := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: desired.CredentialsName(db)}}
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
		now := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: credentials.Name}}
		w.Get(now)
		if now.UID != credentials.UID || string(now.Data["password"]) != string(credentials.Data["password"]) {
			t.Error("there is another Secret")
		}

		w.Update(again, func() { again.Spec.DeletionPolicy = v1.DeletionDelete })
		w.Eventually(again, testkit.Ready())
		data := claim(desired.ClaimName(db, 0))
		w.Get(data)
		w.Delete(again)
		w.Eventually(again, testkit.Gone())
		meta := metav1.ObjectMeta{Name: desired.SetName(db)}
		for _, left := range []client.Object{
			now, data, claim(desired.BackupName(db)), pod(desired.PodName(db, 0)),
			&appsv1.StatefulSet{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta},
			&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: desired.BackupName(db)}},
			&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: data.Spec.VolumeName}},
		} {
			w.Eventually(left, testkit.Gone())
		}
	})
}

// A dump of the CronJob's Job is the source of another Database.
func TestBackup(t *testing.T) {
	forEngines(t, func(w *world) {
		db := w.database("orders", 1)
		w.Apply(db)
		w.Eventually(db, testkit.Ready())
		w.client(db)
		want := w.fill(db)
		schedule := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: desired.BackupName(db)}}
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
func TestRecoverFromMember(t *testing.T) {
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
		w.replicated(db, "999 ", 2)
	})
}
