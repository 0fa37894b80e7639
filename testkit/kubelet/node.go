package kubelet

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// recoveryTimeout bounds the wait of ReconnectNode for the node. It takes milliseconds if kwok runs.
const recoveryTimeout = 30 * time.Second

const pollInterval = 5 * time.Millisecond

// DisconnectNode simulates a node that loses power or network. Its conditions become Unknown, it gets the unreachable taint,
// and its pods are not Ready. From then on its pods have no kubelet: deleting one takes until ReconnectNode, until a client
// deletes it with grace period 0, or until the node itself is deleted and its pods are collected.
func (k *Kubelet) DisconnectNode(ctx context.Context, node string) error {
	err := k.updateNode(ctx, node, func(n *corev1.Node, now metav1.Time) {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[lostLabel] = "true"
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
			taint := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: effect}
			if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
				if effect == corev1.TaintEffectNoExecute {
					taint.TimeAdded = &now
				}
				n.Spec.Taints = append(n.Spec.Taints, taint)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("losing node %s: %w", node, err)
	}
	if err := k.updateNodeStatus(ctx, node, setConditionsUnknown); err != nil {
		return fmt.Errorf("losing node %s: %w", node, err)
	}
	pods, err := k.list(ctx, metav1.NamespaceAll, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(),
	})
	if err != nil {
		return fmt.Errorf("losing node %s: %w", node, err)
	}
	// Only Ready changes: the state of the containers is unknown.
	if err := k.update(ctx, pods, func(pod *corev1.Pod, now metav1.Time) {
		setCondition(pod, corev1.PodReady, corev1.ConditionFalse, "", "", now)
	}); err != nil {
		return fmt.Errorf("losing node %s: %w", node, err)
	}
	return nil
}

// ReconnectNode reverts DisconnectNode. It returns when the node is Ready. Its pods follow: those deleted meanwhile are
// removed, the others become Ready.
func (k *Kubelet) ReconnectNode(ctx context.Context, node string) error {
	err := k.updateNode(ctx, node, func(n *corev1.Node, _ metav1.Time) {
		delete(n.Labels, lostLabel)
	})
	if err != nil {
		return fmt.Errorf("bringing node %s back: %w", node, err)
	}
	err = wait.PollUntilContextTimeout(ctx, pollInterval, recoveryTimeout, true,
		func(ctx context.Context) (bool, error) {
			n, err := k.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			if err != nil {
				return false, fmt.Errorf("reading it: %w", err)
			}
			return reachable(n), nil
		})
	if err != nil {
		return fmt.Errorf("bringing node %s back: waiting until it is Ready: %w", node, err)
	}
	return nil
}

// reachable reports whether the node is Ready and without unreachable taints.
func reachable(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable })
}

// setConditionsUnknown does the work of the controller manager for a node without heartbeats.
func setConditionsUnknown(n *corev1.Node, now metav1.Time) {
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		if c.Type == corev1.NodeNetworkUnavailable || c.Status == corev1.ConditionUnknown {
			continue // the kubelet does not report the network
		}
		c.Status = corev1.ConditionUnknown
		c.Reason = "NodeStatusUnknown"
		c.Message = "Kubelet stopped posting node status."
		c.LastTransitionTime = now
	}
}

func (k *Kubelet) updateNode(ctx context.Context, name string, change func(*corev1.Node, metav1.Time)) error {
	nodes := k.client.CoreV1().Nodes()
	return k.changeNode(ctx, name, change, func(n *corev1.Node) error {
		_, err := nodes.Update(ctx, n, metav1.UpdateOptions{})
		return err
	})
}

func (k *Kubelet) updateNodeStatus(ctx context.Context, name string, change func(*corev1.Node, metav1.Time)) error {
	nodes := k.client.CoreV1().Nodes()
	return k.changeNode(ctx, name, change, func(n *corev1.Node) error {
		_, err := nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return err
	})
}

func (k *Kubelet) changeNode(
	ctx context.Context, name string, change func(*corev1.Node, metav1.Time), write func(*corev1.Node) error,
) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n, err := k.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(n, metav1.Now())
		return write(n)
	})
	if err != nil {
		return fmt.Errorf("writing the node: %w", err)
	}
	return nil
}
