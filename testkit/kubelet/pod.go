package kubelet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// oomKilled is the reason of a container that the kernel killed because it exceeded its memory limit.
const oomKilled = "OOMKilled"

// killedExitCode is the exit code of a process that was ended by SIGKILL.
const killedExitCode = 137

// KillContainer ends a running container as SIGKILL does, and follows the restart policy of the pod: the container restarts
// with a restart count higher by one, or it stays terminated, and the pod fails with its last container.
func (k *Kubelet) KillContainer(ctx context.Context, pod types.NamespacedName, container string) error {
	return k.killContainer(ctx, pod, container, "Error")
}

// ExhaustMemory is KillContainer with the reason OOMKilled: the container has exceeded its memory limit.
func (k *Kubelet) ExhaustMemory(ctx context.Context, pod types.NamespacedName, container string) error {
	return k.killContainer(ctx, pod, container, oomKilled)
}

func (k *Kubelet) killContainer(ctx context.Context, pod types.NamespacedName, container, reason string) error {
	killed := false
	err := k.updatePod(ctx, pod, func(p *corev1.Pod, now metav1.Time) {
		killed = false // this may be the second attempt
		i := slices.IndexFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.Name == container })
		if i < 0 || p.Status.ContainerStatuses[i].State.Running == nil {
			return
		}
		killed = true
		killIn(p, &p.Status.ContainerStatuses[i], reason, now)
	})
	if err == nil && !killed {
		err = errors.New("it does not run")
	}
	if err != nil {
		return fmt.Errorf("killing container %s of pod %s: %w", container, pod, err)
	}
	return nil
}

// killIn kills one container of a pod.
func killIn(pod *corev1.Pod, status *corev1.ContainerStatus, reason string, now metav1.Time) {
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		restart(status, killedExitCode, now)
		status.LastTerminationState.Terminated.Reason = reason
		notReady(pod, now, "ContainersNotReady")
		return
	}
	terminate(status, killedExitCode, now)
	status.State.Terminated.Reason = reason
	runs := func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil }
	if slices.ContainsFunc(pod.Status.ContainerStatuses, runs) {
		notReady(pod, now, "ContainersNotReady")
		return
	}
	pod.Status.Phase = corev1.PodFailed
	notReady(pod, now, "PodFailed")
}

// PauseContainer stops a container without ending it, so that its readiness probe fails: the container is running and not
// Ready until resume is called. Calling resume more than once is allowed.
func (k *Kubelet) PauseContainer(
	ctx context.Context, pod types.NamespacedName, container string,
) (resume func(context.Context) error, err error) {
	key, err := k.addScript(ctx, pod.Namespace, "container:"+pod.Name+"/"+container)
	if err == nil {
		err = k.updatePod(ctx, pod, func(p *corev1.Pod, now metav1.Time) {
			for i := range p.Status.ContainerStatuses {
				if c := &p.Status.ContainerStatuses[i]; c.Name == container {
					c.Ready = false
				}
			}
			notReady(p, now, "ContainersNotReady")
		})
	}
	if err != nil {
		return nil, fmt.Errorf("pausing container %s of pod %s: %w", container, pod, err)
	}
	return func(ctx context.Context) error {
		if err := k.endScript(ctx, pod, key); err != nil {
			return fmt.Errorf("resuming container %s of pod %s: %w", container, pod, err)
		}
		return nil
	}, nil
}

// LosePod makes a pod unreachable, as the loss of its node does, and leaves the node and its other pods alone. The pod is
// not Ready, and has no kubelet: deleting it takes until restore is called, or until a client deletes it with grace period
// 0.
// After restore, a pod that was deleted meanwhile is removed, and another one becomes Ready. Calling restore more than once
// is allowed.
func (k *Kubelet) LosePod(
	ctx context.Context, pod types.NamespacedName,
) (restore func(context.Context) error, err error) {
	key, err := k.addScript(ctx, pod.Namespace, "lost:"+pod.Name)
	if err == nil {
		err = k.updatePod(ctx, pod, func(p *corev1.Pod, now metav1.Time) {
			setCondition(p, corev1.PodReady, corev1.ConditionFalse, "", "", now)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("losing pod %s: %w", pod, err)
	}
	return func(ctx context.Context) error {
		if err := k.endScript(ctx, pod, key); err != nil {
			return fmt.Errorf("restoring pod %s: %w", pod, err)
		}
		return nil
	}, nil
}

// EvictPod ends a pod as the kubelet of a node whose disk is full: with phase Failed and reason Evicted. The pod stays until
// it is deleted.
func (k *Kubelet) EvictPod(ctx context.Context, pod types.NamespacedName) error {
	err := k.updatePod(ctx, pod, func(p *corev1.Pod, now metav1.Time) {
		evict(p, now, "The node was low on resource: ephemeral-storage. ")
	})
	if err != nil {
		return fmt.Errorf("evicting pod %s: %w", pod, err)
	}
	return nil
}

// addScript adds a value to the annotations that script the pods of a namespace, and returns the name of its annotation.
func (k *Kubelet) addScript(ctx context.Context, namespace, value string) (key string, err error) {
	key = holdPrefix + strings.ToLower(rand.Text())
	return key, k.annotate(ctx, namespace, map[string]any{key: value})
}

// endScript removes an annotation that scripts a pod, and triggers the stages for the pod.
func (k *Kubelet) endScript(ctx context.Context, pod types.NamespacedName, key string) error {
	if err := k.annotate(ctx, pod.Namespace, map[string]any{key: nil}); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // the namespace is gone, and the pod with it
		}
		return err
	}
	err := k.updatePod(ctx, pod, func(p *corev1.Pod, _ metav1.Time) { reassess(p) })
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// updatePod changes the status of a pod. It skips a pod that has ended.
func (k *Kubelet) updatePod(ctx context.Context, pod types.NamespacedName, change func(*corev1.Pod, metav1.Time)) error {
	live, err := k.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	return k.updateOne(ctx, live, change)
}
