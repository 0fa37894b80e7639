package podplane

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit/internal/realnode"
)

// Real is the plane of real nodes.
type Real struct {
	Hub realnode.Hub
	// Client reads pods.
	Client client.Reader
	// OwnsNodes is true if no other test uses the nodes.
	OwnsNodes bool
}

// Kill implements Plane.
func (r Real) Kill(ctx context.Context, pod types.NamespacedName, container string) error {
	return r.act(ctx, pod, container, "kill")
}

// ExhaustMemory implements Plane.
func (r Real) ExhaustMemory(ctx context.Context, pod types.NamespacedName, container string) error {
	return r.act(ctx, pod, container, "exhaust-memory")
}

// Pause implements Plane.
func (r Real) Pause(
	ctx context.Context, pod types.NamespacedName, container string,
) (resume func(context.Context) error, err error) {
	node, id, err := r.find(ctx, pod, container)
	if err == nil {
		err = r.Hub.ActOnContainer(ctx, node, id, "pause")
	}
	if err != nil {
		return nil, fmt.Errorf("pausing container %s of pod %s: %w", container, pod, err)
	}
	return func(ctx context.Context) error {
		if err := r.Hub.ActOnContainer(ctx, node, id, "continue"); err != nil {
			return fmt.Errorf("resuming container %s of pod %s: %w", container, pod, err)
		}
		return nil
	}, nil
}

// Lose implements Plane.
func (r Real) Lose(ctx context.Context, pod types.NamespacedName) (restore func(context.Context) error, err error) {
	node, err := r.ownedNode(ctx, pod)
	if err == nil {
		err = r.Hub.ActOnNode(ctx, node, "stop")
	}
	if err != nil {
		return nil, fmt.Errorf("losing pod %s: %w", pod, err)
	}
	return func(ctx context.Context) error { return r.Hub.ActOnNode(ctx, node, "start") }, nil
}

// Partition implements Plane.
func (r Real) Partition(ctx context.Context, pod types.NamespacedName) (restore func(context.Context) error, err error) {
	node, err := r.ownedNode(ctx, pod)
	if err != nil {
		return nil, fmt.Errorf("partitioning the node of pod %s: %w", pod, err)
	}
	nodes := &corev1.NodeList{}
	if err := r.Client.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	if len(nodes.Items) == 1 {
		return nil, fmt.Errorf("%w: there is no other node", ErrUnsupported)
	}
	restore = func(ctx context.Context) error { return r.Hub.ActOnNode(ctx, node, "connect") }
	for _, other := range nodes.Items {
		if other.Name == node {
			continue
		}
		if err := r.Hub.ActOnNode(ctx, node, "partition?node="+url.QueryEscape(other.Name)); err != nil {
			return nil, errors.Join(fmt.Errorf("partitioning node %s from node %s: %w", node, other.Name, err), restore(ctx))
		}
	}
	return restore, nil
}

// ownedNode returns the name of the node of a pod. It is an error if other tests use the nodes.
func (r Real) ownedNode(ctx context.Context, pod types.NamespacedName) (string, error) {
	if !r.OwnsNodes {
		return "", fmt.Errorf("%w: other tests use the nodes: set Env.Private", ErrUnsupported)
	}
	live := &corev1.Pod{}
	if err := r.Client.Get(ctx, pod, live); err != nil {
		return "", fmt.Errorf("reading the pod: %w", err)
	}
	if live.Spec.NodeName == "" {
		return "", errors.New("it has no node")
	}
	return live.Spec.NodeName, nil
}

// FillDisk implements Plane.
func (Real) FillDisk(context.Context, types.NamespacedName) error {
	return fmt.Errorf("%w: kubelet chooses the pods that it evicts from a full node", ErrUnsupported)
}

// StartTimeout implements Plane. Images are on the nodes, and containers share the processors with all others.
func (Real) StartTimeout() time.Duration { return 20 * time.Second }

// LosesNode implements Plane.
func (Real) LosesNode() bool { return true }

func (r Real) act(ctx context.Context, pod types.NamespacedName, container, action string) error {
	node, id, err := r.find(ctx, pod, container)
	if err == nil {
		err = r.Hub.ActOnContainer(ctx, node, id, action)
	}
	if err != nil {
		return fmt.Errorf("container %s of pod %s: %s: %w", container, pod, action, err)
	}
	return nil
}

// find returns the node and the ID of a running container.
func (r Real) find(ctx context.Context, pod types.NamespacedName, container string) (node, id string, err error) {
	live := &corev1.Pod{}
	if err := r.Client.Get(ctx, pod, live); err != nil {
		return "", "", fmt.Errorf("reading the pod: %w", err)
	}
	for _, status := range live.Status.ContainerStatuses {
		if status.Name == container && status.State.Running != nil {
			_, id, _ := strings.Cut(status.ContainerID, "://")
			return live.Spec.NodeName, id, nil
		}
	}
	return "", "", fmt.Errorf("it does not run; the phase of the pod is %s", live.Status.Phase)
}
