// Package podplane breaks the containers and pods of a control plane: it has one interface for simulated and for real nodes.
package podplane

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Plane breaks containers and pods. It is safe for concurrent use.
type Plane interface {
	// Kill ends a running container as SIGKILL does. Kubelet follows the restart policy of the pod.
	Kill(ctx context.Context, pod types.NamespacedName, container string) error
	// ExhaustMemory is Kill for a container that exceeds its memory limit.
	ExhaustMemory(ctx context.Context, pod types.NamespacedName, container string) error
	// Pause stops all processes of a container until resume is called.
	Pause(ctx context.Context, pod types.NamespacedName, container string) (resume func(context.Context) error, err error)
	// Lose cuts a pod off from its kubelet until restore is called: it is not Ready, and a deletion waits.
	Lose(ctx context.Context, pod types.NamespacedName) (restore func(context.Context) error, err error)
	// Partition drops all packets between the pod's node and all other nodes until restore is called. Their connections to the
	// API server stay.
	Partition(ctx context.Context, pod types.NamespacedName) (restore func(context.Context) error, err error)
	// FillDisk fills the disk of the pod's node until its kubelet has evicted the pod, which then has failed and stays.
	FillDisk(ctx context.Context, pod types.NamespacedName) error
	// StartTimeout is the time without a change after which a pod that is not Ready no longer counts as one that starts. 0
	// means that pods start at once.
	StartTimeout() time.Duration
	// LosesNode reports whether Lose and Partition affect all pods of the node, those of other runs included.
	LosesNode() bool
}

// ErrUnsupported is returned for a fault that the nodes cannot have.
var ErrUnsupported = errors.New("these nodes cannot do that")
