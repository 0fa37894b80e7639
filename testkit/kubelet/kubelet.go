package kubelet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

// parallelism is the number of pods written concurrently.
const parallelism = 8

// A Kubelet scripts the simulated nodes of one control plane. It is safe for concurrent use, also by several processes
// on the same control plane. Its writes are visible to all clients when a method returns.
type Kubelet struct {
	client kubernetes.Interface
}

// New returns a Kubelet for a control plane with simulated nodes. The user of cfg needs permission to read namespaces,
// nodes and pods, to patch namespaces, and to write nodes and the status of nodes and pods.
func New(cfg *rest.Config) (*Kubelet, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // no client-side rate limit
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for scripting nodes: %w", err)
	}
	return &Kubelet{client: client}, nil
}

// Fail puts the pods of a namespace that match the label selector into the mode. It affects only existing pods that
// have not ended; a controller's next pod is healthy. Without such a pod it returns an error.
func (k *Kubelet) Fail(ctx context.Context, namespace, selector string, mode Mode) error {
	if mode.apply == nil {
		return errors.New("failing pods: the mode is missing; use one of this package, for example CrashLoop")
	}
	pods, err := k.pods(ctx, namespace, selector)
	if err != nil {
		return fmt.Errorf("failing pods (%s): %w", mode, err)
	}
	if len(pods) == 0 {
		return fmt.Errorf("failing pods (%s): no pod that runs in namespace %s matches %q", mode, namespace, selector)
	}
	if err := k.update(ctx, pods, mode.apply); err != nil {
		return fmt.Errorf("failing pods (%s): %w", mode, err)
	}
	return nil
}

// Heal reverts Fail and DelayReadiness for the pods of a namespace that match the label selector. Containers in a crash loop
// run again, and every hold with exactly this selector is released. Ended pods stay as they are, since no kubelet
// restarts them.
func (k *Kubelet) Heal(ctx context.Context, namespace, selector string) error {
	if err := k.dropHolds(ctx, namespace, func(_, held string) bool { return held == selector }); err != nil {
		return fmt.Errorf("healing pods: %w", err)
	}
	pods, err := k.pods(ctx, namespace, selector)
	if err != nil {
		return fmt.Errorf("healing pods: %w", err)
	}
	if err := k.update(ctx, pods, func(pod *corev1.Pod, now metav1.Time) {
		leaveCrashLoop(pod, now)
		reassess(pod)
	}); err != nil {
		return fmt.Errorf("healing pods: %w", err)
	}
	return nil
}

// pods returns the pods that have a node and have not ended.
func (k *Kubelet) pods(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	return k.list(ctx, namespace, metav1.ListOptions{LabelSelector: selector})
}

func (k *Kubelet) list(ctx context.Context, namespace string, options metav1.ListOptions) ([]corev1.Pod, error) {
	list, err := k.client.CoreV1().Pods(namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	pods := list.Items[:0]
	for _, pod := range list.Items {
		if pod.Spec.NodeName != "" && !ended(&pod) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// update changes the status of each pod and retries on conflict. It skips pods that have ended or no longer exist.
func (k *Kubelet) update(ctx context.Context, pods []corev1.Pod, change func(*corev1.Pod, metav1.Time)) error {
	errs := make([]error, len(pods))
	slots := make(chan struct{}, parallelism)
	var wg sync.WaitGroup
	for i := range pods {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = k.updateOne(ctx, &pods[i], change)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (k *Kubelet) updateOne(ctx context.Context, pod *corev1.Pod, change func(*corev1.Pod, metav1.Time)) error {
	client, name, uid := k.client.CoreV1().Pods(pod.Namespace), pod.Name, pod.UID
	err := retry.OnError(retry.DefaultBackoff, apierrors.IsConflict, func() error {
		if pod == nil { // conflict
			var err error
			if pod, err = client.Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		changed := pod.DeepCopy()
		if changed.UID != uid || ended(changed) {
			return nil
		}
		change(changed, metav1.Now())
		if equality.Semantic.DeepEqual(pod.Status, changed.Status) {
			return nil
		}
		pod = nil
		_, err := client.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the status of pod %s: %w", name, err)
	}
	return nil
}
