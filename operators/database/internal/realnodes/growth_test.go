package realnodes_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

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
		orders.end()
		orders.check()
		w.replicated(db, "", 2)
	})
}

// sized waits until the file system of a member has a size within limits, in bytes.
func (w *world) sized(pod string, above, most int64) {
	w.t.Helper()
	w.Wait("the size of the volume of "+pod, func(context.Context) error {
		out, err := w.Exec(pod, desired.Container, "df", "--output=size", "--block-size=1", "/var/lib/database")
		if err != nil {
			return err
		}
		_, last, _ := strings.Cut(strings.TrimSpace(out), "\n")
		size, err := strconv.ParseInt(strings.TrimSpace(last), 10, 64)
		if err == nil && (size <= above || size > most) {
			err = fmt.Errorf("it is %d", size)
		}
		return err
	})
}
