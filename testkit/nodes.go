package testkit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/internal/realnode"
)

// RealNodes describes nodes whose pods are containers: see docs/real-nodes.md. They need Linux and root. Where they cannot
// run, tests are skipped with the reason, or fail if the environment variable CI is set.
type RealNodes struct {
	// Count is the number of nodes, which are named node-0, node-1 and so on. 0 means 2.
	Count int
	// Images are folders with images: files *.tar with OCI layouts. Nodes find them in place of all registries.
	Images []string
	// Lease is the time after which a node that does not answer is not ready, in whole seconds. 0 means 40 s.
	Lease time.Duration
}

// defaultRealNodes is enough for a pod to move to another node.
const defaultRealNodes = 2

// checkRealNodes skips or fails a test whose nodes cannot run here.
func (e *Env) checkRealNodes() (skip, err error) {
	if e == nil || e.Real == nil || os.Getenv(existingVariable) != "" {
		return nil, nil
	}
	missing := cluster.CheckReal()
	if missing != nil && os.Getenv("CI") != "" {
		return nil, missing
	}
	return missing, nil
}

// A Node is a real node: see Env.Real. Its methods change what all tests of a control plane see, so they need Private. The
// changes are reverted when the test ends.
type Node struct {
	k    *K
	name string
}

// Node returns a real node.
func (k *K) Node(name string) *Node { return &Node{k: k, name: name} }

// Stop turns the node off: all its processes end at once, containers included, and what they have not synchronized to
// volumes is lost. The API server notices when the node's lease has expired.
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

// Isolate ends all connections of the node: no packet passes, but its containers go on.
func (n *Node) Isolate() {
	n.k.t.Helper()
	n.act("isolate", "isolates %s")
	n.k.t.Cleanup(func() { n.revert("connect") })
}

// Connect reverts Isolate.
func (n *Node) Connect() {
	n.k.t.Helper()
	n.act("connect", "connects %s")
}

func (n *Node) act(action, what string) {
	n.k.t.Helper()
	hub := n.k.hub()
	if !n.k.conn.private {
		n.k.t.Fatal("changing a node: other tests use it too; give this test testkit.New(t, testkit.Private())")
	}
	n.k.obs.record(what, n.name)
	ctx, cancel := context.WithTimeout(context.Background(), n.k.Timeout)
	defer cancel()
	if err := hub.ActOnNode(ctx, n.name, action); err != nil {
		n.k.t.Fatalf("changing node %s: %v", n.name, err)
	}
}

// revert does an action after the test; the control plane may have ended.
func (n *Node) revert(action string) {
	ctx, cancel := context.WithTimeout(context.Background(), n.k.Timeout)
	defer cancel()
	_ = n.k.hub().ActOnNode(ctx, n.name, action)
}

// A Container is a running container on a real node.
type Container struct {
	k        *K
	pod      client.ObjectKey
	name     string
	node, id string
}

// Container returns a container of a pod, which has to run. The container that kubelet starts in its place is another one.
func (k *K) Container(pod *corev1.Pod, name string) *Container {
	k.t.Helper()
	k.hub()
	live := &corev1.Pod{}
	ctx, cancel := context.WithTimeout(context.Background(), k.Timeout)
	defer cancel()
	key := client.ObjectKey{Namespace: k.Namespace, Name: pod.Name}
	if pod.Namespace != "" {
		key.Namespace = pod.Namespace
	}
	if err := k.admin.Get(ctx, key, live); err != nil {
		k.t.Fatalf("finding container %s of pod %s: %v", name, key, err)
	}
	for _, status := range live.Status.ContainerStatuses {
		if status.Name == name && status.State.Running != nil {
			_, id, _ := strings.Cut(status.ContainerID, "://")
			return &Container{k: k, pod: key, name: name, node: live.Spec.NodeName, id: id}
		}
	}
	k.t.Fatalf("finding container %s of pod %s: it does not run; phase of the pod: %s", name, key, live.Status.Phase)
	return nil
}

// Kill ends all processes of the container with SIGKILL. Kubelet restarts it, if the pod says so.
func (c *Container) Kill() {
	c.k.t.Helper()
	c.act("kill", "kills %s")
}

// Pause stops all processes of the container, as if the machine were overloaded without limit. They continue when the test
// ends.
func (c *Container) Pause() {
	c.k.t.Helper()
	c.act("pause", "pauses %s")
	c.k.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), c.k.Timeout)
		defer cancel()
		_ = c.k.hub().ActOnContainer(ctx, c.node, c.id, "continue") // it may have ended
	})
}

// Continue reverts Pause.
func (c *Container) Continue() {
	c.k.t.Helper()
	c.act("continue", "continues %s")
}

func (c *Container) act(action, what string) {
	c.k.t.Helper()
	c.k.obs.record(what, fmt.Sprintf("container %s of pod %s", c.name, c.pod.Name))
	ctx, cancel := context.WithTimeout(context.Background(), c.k.Timeout)
	defer cancel()
	if err := c.k.hub().ActOnContainer(ctx, c.node, c.id, action); err != nil {
		c.k.t.Fatalf("container %s of pod %s: %v", c.name, c.pod, err)
	}
}

// LoadProgram makes an image of a static program, such as one built with CGO_ENABLED=0, and gives it to the real nodes. They
// find it under its name, in place of any registry that the name has. It runs as a user without rights.
func (k *K) LoadProgram(image, program string) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), k.Timeout)
	defer cancel()
	if err := k.hub().LoadProgram(ctx, image, program); err != nil {
		k.t.Fatal(err)
	}
}

// hub returns the hub of the real nodes.
func (k *K) hub() realnode.Hub {
	k.t.Helper()
	if k.conn.env.Real == nil || k.conn.existing {
		k.t.Fatal("real nodes are needed: set Env.Real")
	}
	return realnode.Hub{Socket: filepath.Join(k.conn.dir, spec.ControlSocket)}
}
