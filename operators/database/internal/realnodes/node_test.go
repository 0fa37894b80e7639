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

// check ends the writers. Each order that a primary acknowledged is there, and on the replica.
func (f *fleet) check() {
	f.t.Helper()
	for i, wr := range f.writers {
		wr.end()
		wr.check()
		f.worlds[i].replicated(f.dbs[i], "", 2)
	}
}

// A node without power takes its members with it. They start again with their data when the power returns.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	lost := f.primary().Spec.NodeName
	began := time.Now()
	f.Node(lost).Stop()
	f.Eventually(node(lost), testkit.Condition("Ready", metav1.ConditionUnknown))
	f.Node(lost).Start()
	f.recovered("a loss of power that ended", began)
	f.check()
}

// Members of a node that stays away are started on another node, with their volumes, after the administrator has said that
// the node does not run: with the taint for that. The node may come back later.
func TestNodeLoss(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	before := f.primary()
	lost := node(before.Spec.NodeName)
	began := time.Now()
	f.Node(lost.Name).Stop()
	f.Eventually(lost, testkit.Condition("Ready", metav1.ConditionUnknown))
	f.Update(lost, func() {
		lost.Spec.Taints = append(lost.Spec.Taints, corev1.Taint{
			Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
		})
	})
	f.recovered("the loss of a node", began)
	if now := f.primary(); now.Spec.NodeName == lost.Name || now.UID == before.UID {
		t.Errorf("the primary is still on %s", now.Spec.NodeName)
	}
	f.Node(lost.Name).Start()
	f.Eventually(lost, testkit.Condition("Ready", metav1.ConditionTrue))
	f.Update(lost, func() {
		lost.Spec.Taints = slices.DeleteFunc(lost.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == corev1.TaintNodeOutOfService
		})
	})
	f.check()
}

// A drained node loses its members one after the other, as the budgets of the Databases allow.
func TestDrain(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	drained := node(f.primary().Spec.NodeName)
	began := time.Now()
	f.Update(drained, func() { drained.Spec.Unschedulable = true })
	f.drain(drained.Name)
	f.recovered("a drain", began)
	if now := f.primary(); now.Spec.NodeName == drained.Name {
		t.Errorf("the primary is still on %s", now.Spec.NodeName)
	}
	f.check()
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
