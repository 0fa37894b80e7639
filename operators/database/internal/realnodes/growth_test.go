package realnodes_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/status"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The file systems of all members grow while orders are inserted. No container is restarted, and no order is lost.
func TestGrowth(t *testing.T) {
	forEngines(t, func(w *world) {
		db := w.database("orders", 2)
		w.Apply(db)
		w.Eventually(db, testkit.Ready(), members(2))
		w.client(db)
		orders := w.write(db, "")
		var before []*corev1.Pod
		for member := range 2 {
			p := pod(desired.PodName(db, member))
			w.Get(p)
			before = append(before, p)
			w.sized(p.Name, 0, 1<<30)
		}
		w.Update(db, func() { db.Spec.Storage = "2Gi" })
		w.Eventually(db, testkit.Ready(), testkit.Condition(status.StorageResized, metav1.ConditionTrue),
			testkit.Match("size", func(db *v1.Database) bool { return db.Status.Storage == "2Gi" }))
		for _, p := range before {
			w.sized(p.Name, 1<<30, 2<<30)
			now := pod(p.Name)
			w.Get(now)
			if now.UID != p.UID || now.Status.ContainerStatuses[0].RestartCount > 0 {
				w.t.Errorf("%s was restarted", p.Name)
			}
		}
		orders.check()
		w.replicated(db, "", 2)
	})
}

// A database whose volume is full accepts orders again when the volume has grown, and has lost none.
func TestFullVolume(t *testing.T) {
	forEngines(t, func(w *world) {
		db := w.database("orders", 1)
		db.Spec.Storage = "512Mi"
		w.Apply(db)
		w.Eventually(db, testkit.Ready())
		w.client(db)
		orders := w.write(db, "")
		w.query(db, "CREATE TABLE filler (text text)")
		w.fillVolume(db, orders)
		w.Update(db, func() { db.Spec.Storage = "2Gi" })
		w.Eventually(db, testkit.Match("size", func(db *v1.Database) bool { return db.Status.Storage == "2Gi" }))
		grown := time.Now()
		w.Eventually(db, testkit.Ready())
		orders.waitFor(time.Now())
		w.t.Logf("%s: orders are accepted %v after the growth", w.engine.name, time.Since(grown))
		orders.check()
	})
}

// fillVolume leaves 32 MB, and inserts rows until that fails, or a server waits for space.
func (w *world) fillVolume(db *v1.Database, by *writer) {
	w.t.Helper()
	const most = `cd /var/lib/database; fallocate -l $(($(df --output=avail --block-size=1 . | tail -n1) - 32000000)) filler`
	if out, err := w.Exec(desired.PodName(db, 0), desired.Container, "bash", "-c", most); err != nil {
		w.t.Fatalf("%s: %v", out, err)
	}
	const script = `for _ in {1..10}; do timeout 30 bash -c "$REMOTE" client "$1" || exit 0; done`
	w.Wait("the volume is full", func(context.Context) error {
		if out, err := by.shell(script, w.engine.filler); err != nil {
			return fmt.Errorf("%s: %w", out, err)
		}
		const few = 20 << 20 // less than a file of the log of transactions needs
		free, err := w.disk(desired.PodName(db, 0), "avail")
		if err == nil && free > few {
			err = fmt.Errorf("%d bytes are free", free)
		}
		return err
	})
}

// sized waits until the file system of a member has a size within limits, in bytes.
func (w *world) sized(pod string, above, most int64) {
	w.t.Helper()
	w.Wait("the size of the volume of "+pod, func(context.Context) error {
		size, err := w.disk(pod, "size")
		if err == nil && (size <= above || size > most) {
			err = fmt.Errorf("it is %d", size)
		}
		return err
	})
}

// disk returns a column of df for the volume of a member, such as size or avail, in bytes.
func (w *world) disk(pod, column string) (int64, error) {
	out, err := w.Exec(pod, desired.Container, "df", "--output="+column, "--block-size=1", "/var/lib/database")
	if err != nil {
		return 0, err
	}
	_, last, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return strconv.ParseInt(strings.TrimSpace(last), 10, 64)
}
