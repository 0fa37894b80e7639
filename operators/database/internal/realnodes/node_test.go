package realnodes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// drainPrimary drains the node of a primary: its members move to the other node, as the budgets of the Databases allow.
func (f *fleet) drainPrimary() {
	f.t.Helper()
	drained := node(f.primary().Spec.NodeName)
	began := time.Now()
	f.Update(drained, func() { drained.Spec.Unschedulable = true })
	f.drain(drained.Name)
	f.recovered("a drain", began)
	f.moved(drained)
	f.Update(drained, func() { drained.Spec.Unschedulable = false })
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

// drain evicts all pods of the test's namespace from a node, as kubectl drain does, until there are none.
func (f *fleet) drain(name string) {
	f.t.Helper()
	f.Wait("node "+name+" is drained", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		err := f.Client.List(ctx, pods, client.InNamespace(f.Namespace), client.MatchingFields{"spec.nodeName": name})
		for _, p := range pods.Items {
			if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				err = errors.Join(err, fmt.Errorf("pod %s is there", p.Name))
			}
			if p.DeletionTimestamp == nil { // a rejection by the budget is repeated
				err = errors.Join(err, f.Client.SubResource("eviction").Create(ctx, &p, &policyv1.Eviction{}))
			}
		}
		return err
	})
}
