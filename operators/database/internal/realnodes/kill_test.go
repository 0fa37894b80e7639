package realnodes_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/testkit"
)

// The primary is killed while orders are inserted, again and again. Each order that it acknowledged is there at the end, and
// on the replica.
func TestKilledPrimary(t *testing.T) {
	kills := 50
	if testing.Short() {
		kills = 5
	}
	forEngines(t, func(w *world) {
		db := w.database("orders", 2)
		w.Apply(db)
		w.Eventually(db, testkit.Ready(), members(2))
		w.client(db)
		orders := w.write(db, "")
		primary := pod(desired.PodName(db, 0))
		var pauses []time.Duration
		for n := range int32(kills) {
			before := time.Now()
			w.Container(primary, desired.Container).Kill()
			w.Eventually(primary, testkit.Ready(), testkit.Match("restarted", func(p *corev1.Pod) bool {
				return p.Status.ContainerStatuses[0].RestartCount == n+1
			}))
			orders.waitFor(time.Now())
			pauses = append(pauses, orders.pause(before))
		}
		slices.Sort(pauses)
		w.t.Logf("%s: without an acknowledged order for %v to %v after %d kills, median %v", w.engine.name,
			pauses[0], pauses[len(pauses)-1], kills, pauses[len(pauses)/2])
		orders.check()
		w.replicated(db, "", 2)
	})
}
