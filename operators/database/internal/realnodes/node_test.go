package realnodes_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/operators/database/internal/database/desired"
	"github.com/homeostat-dev/homeostat/testkit"
)

// A fleet has a Database of each engine, whose members are on the first two of three nodes, and their writers on the third.
type fleet struct {
	*testkit.K

	t       *testing.T
	worlds  []*world
	dbs     []*v1.Database
	writers []*writer
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	const label = "example.com/members"
	f := &fleet{K: start(t, testkit.Private()), t: t}
	for _, name := range []string{"node-0", "node-1"} {
		n := node(name)
		f.Update(n, func() { n.Labels[label] = "true" })
	}
	for _, e := range engines {
		w := &world{K: f.K, t: t, engine: e}
		db := w.database(string(e.name), 2)
		db.Spec.PodTemplate = &v1.PodTemplate{NodeSelector: map[string]string{label: "true"}}
		w.Apply(db)
		f.worlds = append(f.worlds, w)
		f.dbs = append(f.dbs, db)
	}
	for i, w := range f.worlds {
		w.Eventually(f.dbs[i], testkit.Ready(), members(2))
		w.clientOn(f.dbs[i], "node-2")
		f.writers = append(f.writers, w.write(f.dbs[i], "node-2"))
	}
	return f
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// primary returns the pod of the primary of the first Database.
func (f *fleet) primary() *corev1.Pod {
	f.t.Helper()
	p := pod(desired.PodName(f.dbs[0], 0))
	f.Get(p)
	return p
}

// recovered waits until the Databases are ready and their writers go on, and logs how long they could not write.
func (f *fleet) recovered(after string, since time.Time) {
	f.t.Helper()
	for i, wr := range f.writers {
		f.Eventually(f.dbs[i], testkit.Ready(), members(2))
		wr.waitFor(time.Now())
		f.t.Logf("%s: without an acknowledged order for %v after %s", wr.engine.name, wr.pause(since), after)
	}
}

// check fails the test if an acknowledged order is lost.
func (f *fleet) check() {
	f.t.Helper()
	for i, wr := range f.writers {
		wr.reach(f.dbs[i])
		wr.hasAll(f.dbs[i], wr.acknowledged())
	}
}

// While orders are inserted, nodes are lost in different ways. Each order that a primary has acknowledged is there after
// each of them, and finally on the replicas.
func TestNodes(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	f.losePower()
	f.separateMembers()
	f.slowNetwork()
	f.drainPrimary()
	f.loseNode()
	f.isolatePrimary()
	for i, wr := range f.writers {
		wr.check()
		f.worlds[i].replicated(f.dbs[i], "", 2)
	}
}

// losePower stops the node of a primary and starts it again: its members start with their data.
func (f *fleet) losePower() {
	f.t.Helper()
	lost := node(f.primary().Spec.NodeName)
	began := time.Now()
	f.Node(lost.Name).Stop()
	f.Eventually(lost, testkit.Condition("Ready", metav1.ConditionUnknown))
	f.Node(lost.Name).Start()
	f.Eventually(lost, testkit.Condition("Ready", metav1.ConditionTrue))
	f.recovered("a loss of power", began)
	f.check()
}

// separateMembers lets no packet pass between the two nodes of the members.
func (f *fleet) separateMembers() {
	f.t.Helper()
	f.disturb("a partition", func(n *testkit.Node) { n.Partition("node-1") })
}

// slowNetwork delays all packets of a node of members. The Databases are Ready all the time.
func (f *fleet) slowNetwork() {
	f.t.Helper()
	const delay = 200 * time.Millisecond
	before := make([]int, len(f.dbs))
	for i, db := range f.dbs {
		before[i] = len(f.States(db))
	}
	f.disturb("late packets", func(n *testkit.Node) { n.DelayPackets(delay) })
	for i, db := range f.dbs {
		for _, state := range f.States(db)[before[i]:] {
			if missing := testkit.Ready().Missing(state); missing != "" {
				f.t.Errorf("%s with packets that are %v late: %s", db.Name, delay, missing)
			}
		}
	}
}

// disturb changes the network of a node of members for longer than a lease. The primaries go on, and nothing replaces them.
// Afterwards the replicas have all orders.
func (f *fleet) disturb(what string, change func(n *testkit.Node)) {
	f.t.Helper()
	before := f.primary()
	began := time.Now()
	change(f.Node("node-0"))
	for _, wr := range f.writers {
		wr.waitFor(began.Add(lease + lease/2))
	}
	f.Node("node-0").Connect()
	f.recovered(what, began)
	if now := f.primary(); now.UID != before.UID || now.Spec.NodeName != before.Spec.NodeName {
		f.t.Errorf("the primary was replaced, and is on %s instead of %s", now.Spec.NodeName, before.Spec.NodeName)
	}
	f.check()
	for i, w := range f.worlds {
		want := w.rows(f.dbs[i], 0)
		w.Wait("the replica has the orders of the primary", func(context.Context) error {
			if got := w.rows(f.dbs[i], 1); got < want {
				return fmt.Errorf("it has %d of %d", got, want)
			}
			return nil
		})
	}
}

// rows returns the number of orders that a member has.
func (w *world) rows(db *v1.Database, ordinal int) int {
	w.t.Helper()
	out, err := w.member(db, ordinal, "SELECT count(*) FROM orders")
	if err != nil {
		w.t.Fatalf("counting the orders of member %d: %v", ordinal, err)
	}
	n, err := strconv.Atoi(out)
	if err != nil {
		w.t.Fatalf("counting the orders of member %d: %v", ordinal, err)
	}
	return n
}

// drainPrimary drains the node of a primary: its members move to the other node, as the budgets of the Databases allow.
func (f *fleet) drainPrimary() {
	f.t.Helper()
	drained := node(f.primary().Spec.NodeName)
	began := time.Now()
	f.Node(drained.Name).Drain()
	f.recovered("a drain", began)
	f.moved(drained)
	f.Node(drained.Name).Uncordon()
	f.check()
}

// loseNode stops the node of a primary for longer: its members start on the other node, with their volumes, after the
// administrator has declared it out of service. Then it returns.
func (f *fleet) loseNode() {
	f.t.Helper()
	lost := node(f.primary().Spec.NodeName)
	began := time.Now()
	f.Node(lost.Name).Stop()
	f.Eventually(lost, testkit.Condition("Ready", metav1.ConditionUnknown))
	f.declareOut(lost, true)
	f.recovered("the loss of a node", began)
	f.moved(lost)
	f.Node(lost.Name).Start()
	f.Eventually(lost, testkit.Condition("Ready", metav1.ConditionTrue))
	f.declareOut(lost, false)
	f.check()
}

// isolatePrimary takes the network from the node of a primary. The primary goes on, and so does a client there, until the
// node is declared out of service: then it can write no more, and another one starts with its volume. It has all orders that
// either has acknowledged.
func (f *fleet) isolatePrimary() {
	f.t.Helper()
	before := f.primary()
	lost := node(before.Spec.NodeName)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: desired.SetName(f.dbs[0])}}
	f.Get(service)
	const first = 1e12 // beyond the orders of the other writer
	inside := f.worlds[0].startWriter(f.dbs[0], "inside", first, func(p *corev1.Pod) {
		p.Spec.NodeName = lost.Name
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // it is not evicted
		env := p.Spec.Containers[0].Env
		for i := range env { // no names without a network
			switch env[i].Name {
			case "HOST":
				env[i] = corev1.EnvVar{Name: "HOST", Value: service.Spec.ClusterIP}
			case "SESSION_HOST":
				env[i].Value = before.Status.PodIP
			}
		}
	})
	began := time.Now()
	f.Node(lost.Name).Isolate()
	isolated := time.Now()
	f.Eventually(lost, testkit.Condition("Ready", metav1.ConditionUnknown))
	f.declareOut(lost, true)
	f.recovered("the isolation of a node", began)
	f.moved(lost)
	f.Node(lost.Name).Connect()
	f.Eventually(lost, testkit.Condition("Ready", metav1.ConditionTrue))
	f.declareOut(lost, false)
	inside.check()
	n := inside.count(isolated, began.Add(lease)) // before anything else could be done about it
	f.t.Logf("the isolated primary has acknowledged %d orders", n)
	if n == 0 {
		f.t.Error("the isolated primary has acknowledged nothing")
	}
}

// moved fails the test if the primary is still on a node.
func (f *fleet) moved(from *corev1.Node) {
	f.t.Helper()
	if now := f.primary(); now.Spec.NodeName == from.Name {
		f.t.Errorf("the primary is still on %s", now.Spec.NodeName)
	}
}

// declareOut says that no container runs on a node that is not ready, as an administrator does, or takes it back.
func (f *fleet) declareOut(n *corev1.Node, out bool) {
	f.t.Helper()
	f.Update(n, func() {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == corev1.TaintNodeOutOfService
		})
		if out {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{
				Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
			})
		}
	})
}
