package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/internal/podplane"
	"github.com/homeostat-dev/homeostat/testkit/internal/realnode"
	"github.com/homeostat-dev/homeostat/testkit/internal/realnode/permit"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// RealNodes describes nodes whose pods are containers: see docs/real-nodes.md. They need Linux and root. Where they cannot
// run, tests are skipped with the reason, or fail if the environment variable CI is set or TESTKIT_NODES is 1. With
// TESTKIT_NODES=0 they are skipped everywhere.
type RealNodes struct {
	// Count is the number of nodes, which are named node-0, node-1 and so on. 0 means 2.
	Count int
	// Images are folders with images: files *.tar with OCI layouts. Nodes find them in place of all registries.
	Images []string
	// Lease is the time after which a node that does not answer is not ready, in whole seconds. 0 means 40 s.
	Lease time.Duration
	// RestartBackoff is the longest time that kubelet waits before it starts a container again that ends repeatedly, from 1 s
	// to 300 s, in whole seconds. 0 means 300 s.
	RestartBackoff time.Duration
	// Ingress starts an Ingress controller with a default IngressClass: see [K.IngressTransport].
	Ingress bool
	// Metrics starts metrics-server, for HorizontalPodAutoscalers: see the metrics API, metrics.k8s.io. Metrics of a pod exist
	// about 30 s after it started.
	Metrics bool
}

// defaultRealNodes is enough for a pod to move to another node.
const defaultRealNodes = 2

// checkRealNodes skips or fails a test whose nodes cannot run here.
func (e *Env) checkRealNodes() (skip, err error) {
	if e == nil || e.Real == nil || os.Getenv(existingVariable) != "" {
		return nil, nil
	}
	return permit.RealNodes(e.Real.Images)
}

// A Node is a node of Env.Real or Env.Workloads. Its methods change what all tests of a control plane see, so they need
// Private. The changes are reverted when the test ends.
type Node struct {
	k    *K
	name string
}

// Node returns a node.
func (k *K) Node(name string) *Node { return &Node{k: k, name: name} }

// Stop turns the node off: all its processes end at once, containers included, and what they have not synchronized to
// volumes is lost. The API server notices when the node's lease has expired; that of a simulated node expires at once.
func (n *Node) Stop() {
	n.k.t.Helper()
	n.act("stop", "turns %s off")
	n.k.t.Cleanup(func() { n.revert("start") })
}

// Start turns the node on after Stop. Kubelet starts its pods again.
func (n *Node) Start() {
	n.k.t.Helper()
	n.act("start", "turns %s on")
}

// Isolate ends all connections of the node: no packet passes, but its containers go on. On a simulated node it is Stop.
func (n *Node) Isolate() {
	n.k.t.Helper()
	n.act("isolate", "isolates %s")
	n.k.t.Cleanup(func() { n.revert("connect") })
}

// Partition drops all packets between the node and another one. Both keep their connections to the API server. It needs
// real nodes.
func (n *Node) Partition(other string) {
	n.k.t.Helper()
	n.act("partition?node="+url.QueryEscape(other), "separates %s from "+other)
	n.k.t.Cleanup(func() { n.revert("connect") })
}

// LosePackets drops a share of the packets that the node sends, and of those that it receives, in percent. It needs real
// nodes.
func (n *Node) LosePackets(percent int) {
	n.k.t.Helper()
	n.act(fmt.Sprintf("lose?percent=%d", percent), fmt.Sprintf("loses %d%%%% of the packets of %%s", percent))
	n.k.t.Cleanup(func() { n.revert("connect") })
}

// DelayPackets delays each packet that the node sends or receives, by up to 10 s: a request and its response are each late.
// Packets stay in order. It needs real nodes.
func (n *Node) DelayPackets(by time.Duration) {
	n.k.t.Helper()
	n.act("delay?by="+by.String(), "delays the packets of %s by "+by.String())
	n.k.t.Cleanup(func() { n.revert("connect") })
}

// Connect reverts Isolate, Partition, also that of another node from this one, LosePackets and DelayPackets.
func (n *Node) Connect() {
	n.k.t.Helper()
	n.act("connect", "connects %s")
}

// Drain makes the node unschedulable and evicts its pods, as kubectl drain does. Those of DaemonSets and static pods stay.
// It repeats rejected evictions, because a PodDisruptionBudget may permit them later, and waits until the pods are gone, for
// up to K.Timeout.
func (n *Node) Drain() {
	n.k.t.Helper()
	n.record("drains %s")
	n.k.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), n.k.Timeout)
		defer cancel()
		_ = n.setUnschedulable(ctx, false) // the control plane may have ended
	})
	if err := n.setUnschedulable(n.k.Context(), true); err != nil {
		n.k.t.Fatalf("draining node %s: %v", n.name, err)
	}
	n.k.Wait("the pods of node "+n.name+" are gone", n.evictPods)
}

// Uncordon reverts Drain: pods can be scheduled to the node again.
func (n *Node) Uncordon() {
	n.k.t.Helper()
	n.record("uncordons %s")
	if err := n.setUnschedulable(n.k.Context(), false); err != nil {
		n.k.t.Fatalf("uncordoning node %s: %v", n.name, err)
	}
}

func (n *Node) setUnschedulable(ctx context.Context, to bool) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, to)
	return n.k.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch))
}

// evictPods evicts the pods of the node that are not yet being deleted, and returns an error while there are any.
func (n *Node) evictPods(ctx context.Context) error {
	var pods corev1.PodList
	if err := n.k.Client.List(ctx, &pods, client.MatchingFields{"spec.nodeName": n.name}); err != nil {
		return err
	}
	var left []error
	for _, p := range pods.Items {
		owner := metav1.GetControllerOf(&p)
		if _, isStatic := p.Annotations[corev1.MirrorPodAnnotationKey]; isStatic || owner != nil && owner.Kind == "DaemonSet" {
			continue
		}
		err := errors.New("it is being deleted")
		if p.DeletionTimestamp.IsZero() {
			err = n.k.evict(ctx, &p)
		}
		left = append(left, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, cmp.Or(err, errors.New("it was evicted just now"))))
	}
	return errors.Join(left...)
}

// record records an action, which is allowed only if no other test uses the nodes.
func (n *Node) record(what string) {
	n.k.t.Helper()
	if !n.k.ownsNodes() {
		n.k.t.Fatal("changing a node: other tests use it too; give this test testkit.New(t, testkit.Private())")
	}
	n.k.obs.record(what, n.name)
}

func (n *Node) act(action, what string) {
	n.k.t.Helper()
	n.record(what)
	ctx, cancel := context.WithTimeout(context.Background(), n.k.Timeout)
	defer cancel()
	if err := n.do(ctx, action); err != nil {
		n.k.t.Fatalf("changing node %s: %v", n.name, err)
	}
}

func (n *Node) do(ctx context.Context, action string) error {
	if n.k.conn.env.Real != nil {
		return n.k.hub().ActOnNode(ctx, n.name, action)
	}
	simulated, err := n.k.simulated()
	if err != nil {
		return err
	}
	switch action {
	case "stop", "isolate":
		return simulated.DisconnectNode(ctx, n.name)
	case "start", "connect":
		return simulated.ReconnectNode(ctx, n.name)
	default:
		return errors.New("simulated nodes have neither packets nor disks: set Env.Real")
	}
}

// revert does an action after the test; the control plane may have ended.
func (n *Node) revert(action string) {
	ctx, cancel := context.WithTimeout(context.Background(), n.k.Timeout)
	defer cancel()
	_ = n.do(ctx, action)
}

// ownsNodes reports whether no other test uses the nodes.
func (k *K) ownsNodes() bool { return k.conn.private || k.conn.env.Private }

// A Container is a container of a pod on a node of Env.Real or Env.Workloads.
type Container struct {
	k    *K
	pod  types.NamespacedName
	name string

	resume func(context.Context) error // after Pause
}

// Container returns a container of a pod. Its methods fail the test if it does not run at that moment.
func (k *K) Container(pod *corev1.Pod, name string) *Container {
	key := types.NamespacedName{Namespace: k.Namespace, Name: pod.Name}
	if pod.Namespace != "" {
		key.Namespace = pod.Namespace
	}
	return &Container{k: k, pod: key, name: name}
}

// Kill ends all processes of the container with SIGKILL. Kubelet restarts it, if the pod says so.
func (c *Container) Kill() {
	c.k.t.Helper()
	c.act("kills %s", podplane.Plane.Kill)
}

// ExhaustMemory ends the container as one that exceeds its memory limit, with reason OOMKilled. On real nodes, the kernel
// kills its processes: the limit is lowered to what they use, and more is allocated.
func (c *Container) ExhaustMemory() {
	c.k.t.Helper()
	c.act("exhausts the memory of %s", podplane.Plane.ExhaustMemory)
}

// Pause stops all processes of the container, as if the machine were overloaded without limit. They continue when the test
// ends.
func (c *Container) Pause() {
	c.k.t.Helper()
	c.act("pauses %s", func(
		plane podplane.Plane, ctx context.Context, pod types.NamespacedName, container string,
	) (err error) {
		c.resume, err = plane.Pause(ctx, pod, container)
		return err
	})
	c.k.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.k.Timeout)
		defer cancel()
		_ = c.resume(ctx) // it may have ended
	})
}

// Continue reverts Pause.
func (c *Container) Continue() {
	c.k.t.Helper()
	if c.resume == nil {
		c.k.t.Fatalf("container %s of pod %s is not paused", c.name, c.pod)
	}
	c.act("continues %s", func(_ podplane.Plane, ctx context.Context, _ types.NamespacedName, _ string) error {
		return c.resume(ctx)
	})
}

func (c *Container) act(
	what string, do func(plane podplane.Plane, ctx context.Context, pod types.NamespacedName, container string) error,
) {
	c.k.t.Helper()
	plane, err := c.k.PodFaults()
	if err != nil {
		c.k.t.Fatal(err)
	}
	c.k.obs.record(what, fmt.Sprintf("container %s of pod %s", c.name, c.pod.Name))
	ctx, cancel := context.WithTimeout(context.Background(), c.k.Timeout)
	defer cancel()
	if err := do(plane, ctx, c.pod, c.name); err != nil {
		c.k.t.Fatal(err)
	}
}

var errNoNodes = errors.New("no node runs pods: set Env.Workloads or Env.Real")

// PodFaults returns what package chaos breaks pods with. It is an error if no node runs pods.
func (k *K) PodFaults() (podplane.Plane, error) {
	if k.conn.env.Real != nil && !k.conn.existing {
		return podplane.Real{Hub: k.hub(), Client: k.admin, OwnsNodes: k.ownsNodes()}, nil
	}
	simulated, err := k.simulated()
	return podplane.Simulated{Kubelet: simulated}, err
}

// simulated returns the kubelet of simulated nodes.
func (k *K) simulated() (*kubelet.Kubelet, error) {
	if !k.conn.env.Workloads {
		return nil, errNoNodes
	}
	return kubelet.New(k.conn.config) // not observed: these requests are those of the nodes
}

// LoadProgram makes an image of a static program, such as one built with CGO_ENABLED=0, and gives it to the real nodes. They
// find it under its name, in place of any registry that the name has. It runs as a user without rights.
func (k *K) LoadProgram(image, program string) {
	k.t.Helper()
	if k.conn.env.Real == nil || k.conn.existing {
		k.t.Fatal("real nodes are needed: set Env.Real")
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.Timeout)
	defer cancel()
	if err := k.hub().LoadProgram(ctx, image, program); err != nil {
		k.t.Fatal(err)
	}
}

// hub returns the hub of the real nodes.
func (k *K) hub() realnode.Hub {
	return realnode.Hub{Socket: filepath.Join(k.conn.dir, spec.ControlSocket)}
}
