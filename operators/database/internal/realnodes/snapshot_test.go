package realnodes_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/testkit"
)

func phase(want v1.SnapshotPhase) testkit.Check {
	return testkit.Match("phase "+string(want), func(s *v1.DBSnapshot) bool { return s.Status.Phase == want })
}

// A copy that was verified by restoring it is the source of another Database.
func TestSnapshot(t *testing.T) {
	forEngines(t, func(w *world) {
		db := w.database("orders", 1)
		w.Apply(db)
		w.Eventually(db, testkit.Ready())
		w.client(db)
		want := w.fill(db)
		snapshot := &v1.DBSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "before"}, Spec: v1.DBSnapshotSpec{
			Source: v1.SnapshotSource{DatabaseRef: &v1.DatabaseReference{Name: db.Name}},
			Verify: "restore",
			Storage: &v1.SnapshotStorage{PersistentVolumeClaim: v1.SnapshotClaim{
				Template: &v1.ClaimTemplate{Size: "1Gi"},
			}},
		}}
		w.Apply(snapshot)
		w.Eventually(snapshot, phase(v1.SnapshotSucceeded))
		if last := snapshot.Status.LastSnapshot; last == nil || last.Verified != "restore" || last.SizeBytes < 10_000 {
			w.t.Errorf("the copy is %+v", last)
		}

		w.query(db, "DROP TABLE orders")
		other := w.database("copy", 1)
		other.Spec.BootstrapFrom = &v1.BootstrapFrom{SnapshotRef: &v1.SnapshotReference{Name: snapshot.Name}}
		w.Apply(other)
		w.Eventually(other, testkit.Ready())
		w.client(other)
		if got := w.query(other, w.engine.sum); got != want {
			w.t.Errorf("the data are %s, want %s", got, want)
		}
	})
}

// A snapshot of the volume, taken while orders are inserted, is the source of another Database. It has each order that was
// acknowledged before.
func TestVolumeSnapshot(t *testing.T) {
	forEngines(t, func(w *world) {
		db := w.database("orders", 1)
		w.Apply(db)
		w.Eventually(db, testkit.Ready())
		w.client(db)
		orders := w.write(db, "")
		ids := orders.acknowledged()
		snapshot := &v1.DBSnapshot{ObjectMeta: metav1.ObjectMeta{Name: "before"}, Spec: v1.DBSnapshotSpec{
			Source: v1.SnapshotSource{DatabaseRef: &v1.DatabaseReference{Name: db.Name}}, Method: v1.MethodVolumeSnapshot,
		}}
		w.Apply(snapshot)
		w.Eventually(snapshot, phase(v1.SnapshotSucceeded))
		orders.waitFor(time.Now())
		orders.check()

		other := w.database("copy", 2)
		other.Spec.BootstrapFrom = &v1.BootstrapFrom{SnapshotRef: &v1.SnapshotReference{Name: snapshot.Name}}
		w.Apply(other)
		w.Eventually(other, testkit.Ready(), members(2))
		w.client(other)
		w.hasAll(other, ids)
		w.query(other, "DELETE FROM orders WHERE id > 1")
		w.replicated(other, "1 ", 2)
	})
}

// With the deletion policy Snapshot a Database leaves a last dump, and no volumes. The dump has each order that was
// acknowledged until the end, and all other databases and users of the server.
func TestLastSnapshot(t *testing.T) {
	forEngines(t, func(w *world) {
		db := w.database("orders", 1)
		db.Spec.DeletionPolicy = v1.DeletionSnapshot
		w.Apply(db)
		w.Eventually(db, testkit.Ready())
		w.client(db)
		orders := w.write(db, "")
		for _, sql := range w.engine.more {
			if _, err := w.member(db, 0, sql); err != nil {
				w.t.Fatal(err)
			}
		}
		w.Delete(db)
		w.Eventually(db, testkit.Gone())
		w.Eventually(claim(desired.ClaimName(db, 0)), testkit.Gone())
		last := desired.LastSnapshot(db)
		w.Eventually(last, phase(v1.SnapshotSucceeded))
		ids := orders.end().acknowledged()

		again := w.database("orders", 1)
		again.Spec.BootstrapFrom = &v1.BootstrapFrom{SnapshotRef: &v1.SnapshotReference{Name: last.Name}}
		w.Apply(again)
		w.Eventually(again, testkit.Ready())
		w.reach(again)
		w.hasAll(again, ids)
		if got, err := w.member(again, 0, w.engine.moreSum); err != nil || got != "3 billing" {
			w.t.Errorf("the other database has %q: %v", got, err)
		}
	})
}
