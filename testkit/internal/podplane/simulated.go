package podplane

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// Simulated is the plane of simulated nodes.
type Simulated struct{ Kubelet *kubelet.Kubelet }

// Kill implements Plane.
func (s Simulated) Kill(ctx context.Context, pod types.NamespacedName, container string) error {
	return s.Kubelet.KillContainer(ctx, pod, container)
}

// ExhaustMemory implements Plane.
func (s Simulated) ExhaustMemory(ctx context.Context, pod types.NamespacedName, container string) error {
	return s.Kubelet.ExhaustMemory(ctx, pod, container)
}

// Pause implements Plane.
func (s Simulated) Pause(
	ctx context.Context, pod types.NamespacedName, container string,
) (resume func(context.Context) error, err error) {
	return s.Kubelet.PauseContainer(ctx, pod, container)
}

// Lose implements Plane.
func (s Simulated) Lose(
	ctx context.Context, pod types.NamespacedName,
) (restore func(context.Context) error, err error) {
	return s.Kubelet.LosePod(ctx, pod)
}

// Partition implements Plane.
func (Simulated) Partition(context.Context, types.NamespacedName) (restore func(context.Context) error, err error) {
	return nil, fmt.Errorf("%w: simulated nodes have no packets", ErrUnsupported)
}

// FillDisk implements Plane.
func (s Simulated) FillDisk(ctx context.Context, pod types.NamespacedName) error {
	return s.Kubelet.EvictPod(ctx, pod)
}

// StartTimeout implements Plane.
func (Simulated) StartTimeout() time.Duration { return 0 }

// LosesNode implements Plane.
func (Simulated) LosesNode() bool { return false }
