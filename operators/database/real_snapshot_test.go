//go:build linux

package database_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/testkit"
)

func phase(want v1.SnapshotPhase) testkit.Check {
	return testkit.Match("phase "+string(want), func(s *v1.DBSnapshot) bool { return s.Status.Phase == want })
}

// A copy that was verified by restoring it is the source of another Database.
func TestRealSnapshot(t *testing.T) {
	forEngines(t, func(w *world) {
		w.Run(database.NewSnapshots(database.Options{}))
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

// With the deletion policy Snapshot a Database leaves a last dump, and no volumes. The dump has each row whose write was
// acknowledged until the end, and all other databases and users of the server.
func TestRealLastSnapshot(t *testing.T) {
	forEngines(t, func(w *world) {
		w.Run(database.NewSnapshots(database.Options{}))
		db := w.database("orders", 1)
		db.Spec.DeletionPolicy = v1.DeletionSnapshot
		w.Apply(db)
		w.Eventually(db, testkit.Ready())
		w.client(db)
		w.fill(db)
		for _, sql := range w.engine.more {
			if _, err := w.member(db, 0, sql); err != nil {
				w.t.Fatal(err)
			}
		}
		acknowledged := w.write(db)
		w.Delete(db)
		w.Eventually(db, testkit.Gone())
		ids := acknowledged()
		w.Eventually(claim(desired.ClaimName(db, 0)), testkit.Gone())
		last := desired.LastSnapshot(db)
		w.Eventually(last, phase(v1.SnapshotSucceeded))

		again := w.database("orders", 1)
		again.Spec.BootstrapFrom = &v1.BootstrapFrom{SnapshotRef: &v1.SnapshotReference{Name: last.Name}}
		w.Apply(again)
		w.Eventually(again, testkit.Ready())
		w.reach(again)
		restored := map[string]bool{}
		for id := range strings.FieldsSeq(w.query(again, "SELECT id FROM orders")) {
			restored[id] = true
		}
		missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return restored[id] })
		if len(missing) > 0 {
			w.t.Errorf("%d acknowledged rows are lost: %s to %s", len(missing), missing[0], missing[len(missing)-1])
		}
		w.t.Logf("%d rows were acknowledged, %d restored", len(ids), len(restored))
		if got, err := w.member(again, 0, w.engine.moreSum); err != nil || got != "3 billing" {
			w.t.Errorf("the other database has %q: %v", got, err)
		}
	})
}

// write inserts orders until the server is gone, in a new connection each over the endpoint and in one connection to the
// primary's pod. It returns a function that stops both and returns the IDs of the acknowledged orders and of the first ones.
func (w *world) write(db *v1.Database) func() []string {
	w.t.Helper()
	const loop = `id=$1; until [ -e /tmp/stop ]; do
		if timeout 5 bash -c "$REMOTE" client "INSERT INTO orders VALUES ($id, 'x')" 2>/dev/null; then
			echo $id >>/tmp/acknowledged
		fi
		id=$((id + 1)); done`
	const session = `HOST=` + "orders-db-0.orders-db-hl" + `; id=$1; insert() { until [ -e /tmp/stop ]; do
		echo "INSERT INTO orders VALUES ($id, 'x'); SELECT $id;"; id=$((id + 1)); done; }
		insert | bash -c "$SESSION" >>/tmp/acknowledged 2>/dev/null || true`
	done := make(chan error, 2)
	for first, script := range map[string]string{"10000": loop, "1000000": session} {
		go func() {
			_, err := w.shell(db, "export REMOTE='"+strings.ReplaceAll(w.engine.remote, "'", `'\''`)+"' SESSION='"+
				w.engine.session+"' HOST PORT USERNAME PASSWORD DATABASE; "+script, first)
			done <- err
		}()
	}
	w.Wait("acknowledged writes", func(context.Context) error {
		out, err := w.shell(db, "cat /tmp/acknowledged")
		if err == nil && (!strings.Contains(out, "10000\n") || !strings.Contains(out, "1000001")) {
			err = fmt.Errorf("only %s", out)
		}
		return err
	})
	return func() []string {
		w.t.Helper()
		out, err := w.shell(db, "touch /tmp/stop; cat /tmp/acknowledged")
		for range 2 {
			err = errors.Join(err, <-done)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		ids := strings.Fields(out)
		for id := range 1000 {
			ids = append(ids, strconv.Itoa(id+1))
		}
		return ids
	}
}
