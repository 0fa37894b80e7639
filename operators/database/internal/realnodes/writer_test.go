package realnodes_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/testkit"
)

// writerScript inserts orders with IDs from FIRST until /tmp/stop exists: in a connection to the Service for each order, and
// in sessions with the pod of the primary. None is longer than 10 s, so that a server that vanished does not block it.
// /tmp/acknowledged gets the ID of each order whose insertion the server has confirmed, the time in seconds, and the kind of
// the connection. The last file is /tmp/stopped.
const writerScript = `
statements() {
  id=$1
  until [ -e /tmp/stop ]; do
    echo "INSERT INTO orders VALUES ($id, 'x'); SELECT $id;"
    id=$((id + 1))
  done
}
acknowledge() { while read -r id; do echo "$id $EPOCHREALTIME $1" >>/tmp/acknowledged; done; }
sessions() {
  HOST=$SESSION_HOST
  first=$1
  until [ -e /tmp/stop ]; do
    statements $first 2>/dev/null | timeout 10 bash -c "$SESSION" 2>/dev/null | acknowledge session
    first=$((first + 1000000))
    sleep 0.1
  done
}
connections() {
  id=$1
  until [ -e /tmp/stop ]; do
    timeout 10 bash -c "$REMOTE" client "INSERT INTO orders VALUES ($id, 'x'); SELECT $id" 2>/dev/null |
      acknowledge connection
    id=$((id + 1))
    sleep 0.02
  done
}
: >/tmp/acknowledged
connections $FIRST & sessions $((FIRST + 1000000)) & wait
touch /tmp/stopped
sleep infinity`

// A writer inserts orders into a Database.
type writer struct {
	*world

	db   *v1.Database
	name string
}

// write creates the table of orders and starts a writer on a node, or on any if it is "". It returns when orders are
// acknowledged.
func (w *world) write(db *v1.Database, node string) *writer {
	w.t.Helper()
	w.query(db, w.engine.table)
	return w.startWriter(db, db.Name+"-writer", 1, func(p *corev1.Pod) { p.Spec.NodeName = node })
}

// startWriter starts a writer of orders from an ID, with a changed pod.
func (w *world) startWriter(db *v1.Database, name string, first int64, change func(*corev1.Pod)) *writer {
	w.t.Helper()
	wr := &writer{world: w, db: db, name: name}
	p := w.clientPod(db, name, "bash", "-c", writerScript)
	p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env,
		corev1.EnvVar{Name: "REMOTE", Value: w.engine.remote}, corev1.EnvVar{Name: "SESSION", Value: w.engine.session},
		corev1.EnvVar{Name: "FIRST", Value: strconv.FormatInt(first, 10)},
		corev1.EnvVar{Name: "SESSION_HOST", Value: desired.PodName(db, 0) + "." + desired.HeadlessServiceName(db)})
	change(p)
	w.Apply(p)
	w.Eventually(p, testkit.Ready())
	wr.waitFor(time.Now())
	return wr
}

func (wr *writer) shell(script string, args ...string) (string, error) {
	argv := append([]string{"bash", "-euo", "pipefail", "-c", script, "writer"}, args...)
	out, err := wr.Exec(wr.name, "client", argv...)
	return strings.TrimSpace(out), err
}

// waitFor waits until both kinds of connections have inserted orders after a time.
func (wr *writer) waitFor(since time.Time) {
	wr.t.Helper()
	wr.Wait("acknowledged orders", func(context.Context) error {
		const script = `awk -v t="$1" '$2 > t { n[$3]++ } END { exit !(n["session"] && n["connection"]) }' /tmp/acknowledged`
		_, err := wr.shell(patiently(script), seconds(since))
		return err
	})
}

// pause returns the longest time without an acknowledged order over the Service that ended after the given time.
func (wr *writer) pause(since time.Time) time.Duration {
	wr.t.Helper()
	out, err := wr.shell(`sort -k2n /tmp/acknowledged | awk -v t="$1" '
		$3 == "connection" { if ($2 > t && last && $2 - last > most) most = $2 - last; last = $2 }
		END { printf "%.3fs", most }'`, seconds(since))
	if err != nil {
		wr.t.Fatal(err)
	}
	most, err := time.ParseDuration(out)
	if err != nil {
		wr.t.Fatal(err)
	}
	return most
}

// count returns the number of orders that were acknowledged between two times.
func (wr *writer) count(after, before time.Time) (n int) {
	wr.t.Helper()
	out, err := wr.shell(`awk -v a="$1" -v b="$2" '$2 > a && $2 < b { n++ } END { print n + 0 }' /tmp/acknowledged`,
		seconds(after), seconds(before))
	if err == nil {
		n, err = strconv.Atoi(out)
	}
	if err != nil {
		wr.t.Fatal(err)
	}
	return n
}

func seconds(t time.Time) string { return fmt.Sprintf("%.6f", float64(t.UnixMicro())/1e6) }

// end ends the writer.
func (wr *writer) end() *writer {
	wr.t.Helper()
	if _, err := wr.shell("touch /tmp/stop"); err != nil {
		wr.t.Fatal(err)
	}
	wr.Wait("the end of the writer", func(context.Context) error {
		_, err := wr.shell(patiently("[ -e /tmp/stopped ]"))
		return err
	})
	return wr
}

// acknowledged returns the IDs of the acknowledged orders.
func (wr *writer) acknowledged() []string {
	wr.t.Helper()
	out, err := wr.shell("cut -d' ' -f1 /tmp/acknowledged")
	if err != nil {
		wr.t.Fatal(err)
	}
	return strings.Fields(out)
}

// check ends the writer and fails the test if the database does not have each acknowledged order.
func (wr *writer) check() {
	wr.t.Helper()
	wr.end()
	wr.reach(wr.db)
	wr.hasAll(wr.db, wr.acknowledged())
}

// hasAll fails the test if a database does not have each of the orders.
func (w *world) hasAll(db *v1.Database, ids []string) {
	w.t.Helper()
	stored := map[string]bool{}
	for id := range strings.FieldsSeq(w.query(db, "SELECT id FROM orders")) {
		stored[id] = true
	}
	lost := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return stored[id] })
	w.t.Logf("%s: %d orders acknowledged, %d stored", w.engine.name, len(ids), len(stored))
	if len(lost) > 0 {
		w.t.Errorf("%s: %d acknowledged orders are lost: %s to %s", w.engine.name, len(lost), lost[0], lost[len(lost)-1])
	}
}
