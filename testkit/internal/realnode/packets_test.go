//go:build linux

package realnode_test

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit"
)

// packetTest has a server on one node and a client on another one.
type packetTest struct {
	*testkit.K

	server, client *corev1.Pod
}

func startPacketTest(t *testing.T) packetTest {
	t.Helper()
	p := packetTest{K: start(t, testkit.Private()), server: pod("server"), client: pod("client")}
	p.server.Spec.NodeName = "node-0"
	p.client.Spec.NodeName = "node-1"
	for _, pod := range []*corev1.Pod{p.server, p.client} {
		p.Apply(pod)
	}
	for _, pod := range []*corev1.Pod{p.server, p.client} {
		p.Eventually(pod, testkit.Ready())
	}
	return p
}

// reach requests from the server in the pod of the client.
func (p packetTest) reach() error {
	_, err := p.Exec(p.client.Name, "main", "/program", "-get", "http://"+p.server.Status.PodIP+":8080")
	return err
}

func (p packetTest) waitReached() {
	p.Wait("the client reaches the server", func(context.Context) error { return p.reach() })
}

func (p packetTest) nodeReady(name string, want metav1.ConditionStatus) {
	p.Eventually(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, testkit.Condition("Ready", want))
}

// A partition separates the pods of two nodes, and both nodes keep their connections to the API server.
func TestPartition(t *testing.T) {
	t.Parallel()
	p := startPacketTest(t)
	if err := p.reach(); err != nil {
		t.Fatalf("before the partition: %v", err)
	}
	p.Node("node-0").Partition("node-1")
	if p.reach() == nil {
		t.Error("the client reaches the server in spite of the partition")
	}
	leases := map[string]string{"node-0": "", "node-1": ""}
	for name := range leases {
		leases[name] = p.renewed(name)
	}
	for name, before := range leases {
		p.Wait(name+" renews its lease", func(context.Context) error {
			if p.renewed(name) == before {
				return errors.New("it does not")
			}
			return nil
		})
		p.nodeReady(name, metav1.ConditionTrue)
	}
	p.Node("node-1").Connect() // the other one of the two
	p.waitReached()
}

// A share of the packets is lost: of all of them, the node is not ready, and of some of them, connections survive.
func TestLosePackets(t *testing.T) {
	t.Parallel()
	p := startPacketTest(t)
	node := p.Node("node-0")
	node.LosePackets(100)
	if p.reach() == nil {
		t.Error("the client reaches the server, all of whose packets are lost")
	}
	p.nodeReady("node-0", metav1.ConditionUnknown)
	node.LosePackets(20)
	p.nodeReady("node-0", metav1.ConditionTrue)
	p.waitReached()
	node.Connect()
	p.waitReached()
	if restarts(p.server) != 0 {
		t.Errorf("the server was restarted %d times", restarts(p.server))
	}
}

// Delayed packets arrive late and in order: requests that permit the time succeed. The delay remains after a loss of power.
func TestDelayPackets(t *testing.T) {
	t.Parallel()
	p := startPacketTest(t)
	const short, long = 100 * time.Millisecond, 300 * time.Millisecond
	node := p.Node("node-0")
	node.DelayPackets(short)
	p.waitReached()
	p.fetchDelayed(t, short)

	node.DelayPackets(long)
	node.Stop()
	node.Start()
	p.Eventually(p.server, testkit.Ready(),
		testkit.Match("restarted", func(server *corev1.Pod) bool { return restarts(server) == 1 }))
	p.nodeReady("node-0", metav1.ConditionTrue)
	p.fetchDelayed(t, long)
	if p.reach() == nil { // it waits for a second
		t.Errorf("the client reaches the server with a delay of %v for each packet", long)
	}
	node.Connect()
	p.waitReached()
	if count := restarts(p.server); count != 1 {
		t.Errorf("the server was restarted %d times, want once, with its node", count)
	}
}

// fetchDelayed requests from the server through the API server: two packets connect, and two are request and response.
func (p packetTest) fetchDelayed(t *testing.T, delay time.Duration) {
	t.Helper()
	start := time.Now()
	if _, err := p.Fetch(p.server, 8080, "/"); err != nil {
		t.Errorf("with a delay of %v for each packet: %v", delay, err)
	}
	if took, want := time.Since(start), 4*delay; took < want {
		t.Errorf("a connection and a request took %v, want at least %v", took, want)
	}
}

// renewed returns when a node has renewed its lease.
func (p packetTest) renewed(node string) string {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}}
	p.Get(lease)
	return lease.ResourceVersion
}
