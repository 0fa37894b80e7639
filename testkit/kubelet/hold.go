package kubelet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// DelayReadiness keeps the pods of a namespace that match the label selector from being Ready, like a failing readiness
// probe: their containers run. Unlike Fail it also applies to future pods, from their creation, until release is
// called. Calling release more than once is allowed, and Heal releases as well. Ready pods lose their readiness. Pods
// of a Job keep running while they are held.
func (k *Kubelet) DelayReadiness(
	ctx context.Context, namespace, selector string,
) (release func(context.Context) error, err error) {
	if _, err := labels.Parse(selector); err != nil {
		return nil, fmt.Errorf("holding readiness back: %w", err)
	}
	key := holdPrefix + strings.ToLower(rand.Text())
	if err := k.annotate(ctx, namespace, map[string]any{key: selector}); err != nil {
		return nil, fmt.Errorf("holding readiness back: %w", err)
	}
	pods, err := k.pods(ctx, namespace, selector)
	if err != nil {
		return nil, fmt.Errorf("holding readiness back: %w", err)
	}
	if err := k.update(ctx, pods, loseReadiness); err != nil {
		return nil, fmt.Errorf("holding readiness back: %w", err)
	}
	return func(ctx context.Context) error {
		if err := k.dropHolds(ctx, namespace, func(name, _ string) bool { return name == key }); err != nil {
			return fmt.Errorf("letting pods become Ready: %w", err)
		}
		pods, err := k.pods(ctx, namespace, selector)
		if err != nil {
			return fmt.Errorf("letting pods become Ready: %w", err)
		}
		// The stages determine whether another hold applies to a pod.
		if err := k.update(ctx, pods, func(pod *corev1.Pod, _ metav1.Time) { reassess(pod) }); err != nil {
			return fmt.Errorf("letting pods become Ready: %w", err)
		}
		return nil
	}, nil
}

func loseReadiness(pod *corev1.Pod, now metav1.Time) {
	// This includes pods that have not started: a stage that has not seen the hold then gets a conflict and is
	// evaluated again.
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].Ready = false
	}
	notReady(pod, now, "ContainersNotReady")
}

func (k *Kubelet) dropHolds(ctx context.Context, namespace string, drop func(key, selector string) bool) error {
	ns, err := k.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the holds: %w", err)
	}
	remove := map[string]any{}
	for key, selector := range ns.Annotations {
		if strings.HasPrefix(key, holdPrefix) && drop(key, selector) {
			remove[key] = nil
		}
	}
	if len(remove) == 0 {
		return nil
	}
	return k.annotate(ctx, namespace, remove)
}

// annotate sets annotations of a namespace; nil removes one.
func (k *Kubelet) annotate(ctx context.Context, namespace string, annotations map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("encoding annotations: %w", err)
	}
	_, err = k.client.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("annotating namespace %s: %w", namespace, err)
	}
	return nil
}
