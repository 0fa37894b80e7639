package realnodes_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/testkit"
)

const lostNode = "node-1"

// An onLostNode is an ImmortalContainer whose first pod is on the node that will be lost.
type onLostNode struct {
	k       *testkit.K
	ic      *v1alpha1.ImmortalContainer
	pod     *corev1.Pod // the first one
	journal journal
}

// startOnLostNode starts an ImmortalContainer. Its pods prefer the node that will be lost, and are evicted from it as soon
// as Kubernetes considers it unreachable.
func startOnLostNode(t *testing.T, k *testkit.K, policy v1alpha1.NodeLostPolicy) *onLostNode {
	t.Helper()
	ic := newContainer(strings.ToLower(string(policy)))
	ic.Spec.NodeLost = policy
	ic.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{lostNode},
			}}},
		}},
	}}
	ic.Spec.Tolerations = []corev1.Toleration{{
		Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		TolerationSeconds: new(int64(0)),
	}}
	o := &onLostNode{k: k, ic: ic, journal: keepJournal(t, ic)}
	k.Apply(ic)
	k.Eventually(ic, testkit.Ready())
	o.pod = podOf(k, ic)
	if o.pod.Spec.NodeName != lostNode {
		t.Fatalf("the pod is on %s, want %s", o.pod.Spec.NodeName, lostNode)
	}
	return o
}

// expectJournal checks what has run since the first container ran alone.
func (o *onLostNode) expectJournal(t *testing.T, more ...string) {
	t.Helper()
	want := append([]string{fmt.Sprintf("%s alone", o.pod.UID)}, more...)
	if diff := cmp.Diff(want, o.journal.lines()); diff != "" {
		t.Errorf("containers of %s (-want +got):\n%s", o.ic.Name, diff)
	}
}

// expectWaiting checks that the object is not ready and has its first pod.
func (o *onLostNode) expectWaiting(t *testing.T) {
	t.Helper()
	o.k.Eventually(o.ic, testkit.Reason("Ready", metav1.ConditionFalse, "NodeLost"), starts(1))
	if pod := podOf(o.k, o.ic); pod.UID != o.pod.UID {
		t.Errorf("pod %s has replaced pod %s", pod.UID, o.pod.UID)
	}
}

// replacement waits for the second pod.
func (o *onLostNode) replacement() *corev1.Pod {
	o.k.Eventually(o.ic, testkit.Ready(), starts(2), restarts(0), lastTermination("NodeLost"))
	return podOf(o.k, o.ic)
}

// With nodeLost Wait nothing runs until a node without power is back. With Replace the next pod runs on the other node. Two
// containers never run at a time.
func TestNodeWithoutPower(t *testing.T) {
	t.Parallel()
	k := start(t, testkit.Private())
	wait := startOnLostNode(t, k, v1alpha1.NodeLostWait)
	replace := startOnLostNode(t, k, v1alpha1.NodeLostReplace)
	k.Node(lostNode).Stop()
	second := replace.replacement()
	if second.Spec.NodeName == lostNode {
		t.Errorf("the second pod is on the lost node %s", lostNode)
	}
	wait.expectWaiting(t)
	wait.expectJournal(t)
	k.Node(lostNode).Start()
	wait.expectJournal(t, fmt.Sprintf("%s alone", wait.replacement().UID))
	// The node is back: it does not start the container of the first pod.
	k.Eventually(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: lostNode}}, testkit.Condition("Ready", metav1.ConditionTrue))
	k.Consistently(replace.ic, 5*time.Second, testkit.Ready(), starts(2), restarts(0))
	replace.expectJournal(t, fmt.Sprintf("%s alone", second.UID))
}

// The container on an isolated node goes on. With nodeLost Wait no other one starts before it has ended, and the object is
// not ready. With Replace there is one pod, and there are two containers until the node is connected.
func TestIsolatedNode(t *testing.T) {
	t.Parallel()
	k := start(t, testkit.Private())
	wait := startOnLostNode(t, k, v1alpha1.NodeLostWait)
	replace := startOnLostNode(t, k, v1alpha1.NodeLostReplace)
	k.Node(lostNode).Isolate()
	second := replace.replacement()
	if second.Spec.NodeName == lostNode {
		t.Errorf("the second pod is on the isolated node %s", lostNode)
	}
	two := fmt.Sprintf("%s beside another", second.UID)
	replace.expectJournal(t, two)
	wait.expectWaiting(t)
	wait.expectJournal(t)
	k.Node(lostNode).Connect()
	wait.expectJournal(t, fmt.Sprintf("%s alone", wait.replacement().UID))
	one := fmt.Sprintf("%s alone", second.UID)
	k.Wait("the first container has ended", func(context.Context) error {
		if lines := replace.journal.lines(); !slices.Contains(lines, one) {
			return fmt.Errorf("the journal is %q", lines)
		}
		return nil
	})
	k.Consistently(replace.ic, 5*time.Second, testkit.Ready(), starts(2), restarts(0))
	replace.expectJournal(t, two, one)
}
