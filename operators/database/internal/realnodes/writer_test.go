package realnodes_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/testkit"
)

// writerScript inserts orders until /tmp/stop exists: in a connection to the Service for each order, with IDs from 1, and in
// sessions with the pod of the primary, with IDs from 1000000. None is longer than 10 s, so that a server that vanished does
// not block it. /tmp/acknowledged gets the ID of each order whose insertion the server has confirmed, and the time in seconds.
// The last file is /tmp/stopped.
const writerScript = `
statements() { id=$1; until [ -e /tmp/stop ]; do echo "INSERT INTO orders VALUES ($id, 'x'); SELECT $id;"; id=$((id + 1)); done; }
acknowledge() { while read -r id; do echo "$id $EPOCHREALTIME" >>/tmp/acknowledged; done; }
sessions() {
  first=$1
  until [ -e /tmp/stop ]; do
    statements $first 2>/dev/null | timeout 10 bash -c "$SESSION" 2>/dev/null | acknowledge
    first=$((first + 1000000))
    sleep 0.1
  done
}
connections() {
  id=$1
  until [ -e /tmp/stop ]; do
    timeout 10 bash -c "$REMOTE" client "INSERT INTO orders VALUES ($id, 'x'); SELECT $id" 2>/dev/null | acknowledge
    id=$((id + 1))
    sleep 0.02
  done
}
: >/tmp/acknowledged
connections 1 & sessions 1000000 & wait
touch /tmp/stopped
sleep infinity`

// A writer inserts orders into a Database.
type writer struct {
	*world

	db   *v1.Database
	name string
}

// write starts a writer on a node, or on any if it is "", and returns when orders are acknowledged.
func (w *world) write(db *v1.Database, node string) *writer {
	w.t.Helper()
	w.query(db, w.engine.table)
	wr := &writer{world: w, db: db, name: db.Name + "-writer"}
	p := w.clientPod(db, wr.name, "bash", "-c", writerScript)
	p.Spec.NodeName = node
	p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env,
		corev1.EnvVar{Name: "REMOTE", Value: w.engine.remote},
		corev1.EnvVar{Name: "SESSION", Value: "HOST=" + desired.PodName(db, 0) + "." + desired.HeadlessServiceName(db) + "; " +
			w.engine.session})
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
		const script = `awk -v t="$1" '$2 > t { n[$1 >= 1000000]++ } END { exit !(n[0] && n[1]) }' /tmp/acknowledged`
		_, err := wr.shell(patiently(script), seconds(since))
		return err
	})
}

// pause returns the longest time without an acknowledged order over the Service, from a second before the given time until
// the last order.
func (wr *writer) pause(since time.Time) time.Duration {
	wr.t.Helper()
	out, err := wr.shell(`sort -k2n /tmp/acknowledged | awk -v t="$1" '
		$1 < 1000000 && $2 > t - 1 { if (last && $2 - last > most) most = $2 - last; last = $2 } END { printf "%.3fs", most }'`, seconds(since))
	if err != nil {
		wr.t.Fatal(err)
	}
	most, err := time.ParseDuration(out)
	if err != nil {
		wr.t.Fatal(err)
	}
	return most
}

func seconds(t time.Time) string { return fmt.Sprintf("%.6f", float64(t.UnixMicro())/1e6) }

// end ends the writer.
func (wr *writer) end() {
	wr.t.Helper()
	if _, err := wr.shell("touch /tmp/stop"); err != nil {
		wr.t.Fatal(err)
	}
	wr.Wait("the end of the writer", func(context.Context) error {
		_, err := wr.shell(patiently("[ -e /tmp/stopped ]"))
		return err
	})
}

// check fails the test if the database does not have each acknowledged order.
func (wr *writer) check() {
	wr.t.Helper()
	wr.reach(wr.db)
	out, err := wr.shell(`set -- 'SELECT id FROM orders'; ` + wr.engine.remote + ` | sort >/tmp/stored
		cut -d' ' -f1 /tmp/acknowledged | sort | comm -23 - /tmp/stored >/tmp/lost
		echo "$(wc -l </tmp/acknowledged) acknowledged, $(wc -l </tmp/stored) stored, lost: $(head -5 /tmp/lost | xargs)"`)
	if err != nil {
		wr.t.Fatal(err)
	}
	wr.t.Logf("%s: %s", wr.engine.name, out)
	if !strings.HasSuffix(out, "lost:") {
		wr.t.Errorf("acknowledged orders are lost: %s", out)
	}
}
