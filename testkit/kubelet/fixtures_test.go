package kubelet_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// timeout is long enough for busy machines; the expected events take milliseconds.
const timeout = 20 * time.Second

// world is a namespace and a node of one test.
type world struct {
	*testing.T

	namespace string
	node      string
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := world{T: t}
	ns, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	w.check(err)
	w.namespace = ns.Name
	w.node = ns.Name
	w.createNode(kubelet.NewNode(w.node))
	return w
}

func (w world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w world) createNode(node *corev1.Node) {
	w.Helper()
	_, err := client.CoreV1().Nodes().Create(w.Context(), node, metav1.CreateOptions{})
	w.check(err)
	w.Cleanup(func() {
		ctx := context.WithoutCancel(w.Context())
		if err := client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil {
			w.Error(err)
		}
	})
	w.waitNode(node.Name, "it is Ready and has no taint", func(n *corev1.Node) bool {
		return nodeReady(n) == corev1.ConditionTrue && len(n.Spec.Taints) == len(node.Spec.Taints)
	})
}

// pod creates a pod with the container "app" on the test's node. Its label is app=<name>.
func (w world) pod(name, image string, edits ...func(*corev1.Pod)) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName:   w.node,
			Containers: []corev1.Container{{Name: "app", Image: image}},
		},
	}
	for _, edit := range edits {
		edit(pod)
	}
	pod, err := client.CoreV1().Pods(w.namespace).Create(w.Context(), pod, metav1.CreateOptions{})
	w.check(err)
	return pod
}

// runningPod creates a pod and waits until it is Ready.
func (w world) runningPod(name, image string, edits ...func(*corev1.Pod)) *corev1.Pod {
	w.Helper()
	w.pod(name, image, edits...)
	return w.waitReady(name)
}

func (w world) waitReady(name string) *corev1.Pod {
	w.Helper()
	return w.waitPod(name, "it is Ready", func(p *corev1.Pod) bool { return ready(p) == corev1.ConditionTrue })
}

func (w world) waitPod(name, what string, done func(*corev1.Pod) bool) *corev1.Pod {
	w.Helper()
	var pod *corev1.Pod
	err := wait.PollUntilContextTimeout(w.Context(), 3*time.Millisecond, timeout, true,
		func(ctx context.Context) (bool, error) {
			var err error
			pod, err = client.CoreV1().Pods(w.namespace).Get(ctx, name, metav1.GetOptions{})
			return err == nil && done(pod), err
		})
	if err != nil {
		w.Fatalf("waiting for pod %s until %s: %v; its status is %s", name, what, err, show(pod))
	}
	return pod
}

// sawPod waits until a pod is, or has been since, in a state that may last for a moment only.
func (w world) sawPod(since *corev1.Pod, what string, done func(*corev1.Pod) bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), timeout)
	defer cancel()
	events, err := client.CoreV1().Pods(w.namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + since.Name, ResourceVersion: since.ResourceVersion,
	})
	w.check(err)
	defer events.Stop()
	for event := range events.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && done(pod) {
			return
		}
	}
	w.Fatalf("waiting for pod %s until %s: not within %v", since.Name, what, timeout)
}

func (w world) waitGone(name string, uid types.UID) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 3*time.Millisecond, timeout, true,
		func(ctx context.Context) (bool, error) {
			pod, err := client.CoreV1().Pods(w.namespace).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return err == nil && pod.UID != uid, err
		})
	if err != nil {
		w.Fatalf("waiting until pod %s is gone: %v", name, err)
	}
}

func (w world) waitNode(name, what string, done func(*corev1.Node) bool) *corev1.Node {
	w.Helper()
	var node *corev1.Node
	err := wait.PollUntilContextTimeout(w.Context(), 3*time.Millisecond, timeout, true,
		func(ctx context.Context) (bool, error) {
			var err error
			node, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			return err == nil && done(node), err
		})
	if err != nil {
		w.Fatalf("waiting for node %s until %s: %v; its status is %s", name, what, err, show(node))
	}
	return node
}

// sync returns when kwok has processed all previous writes: it processes pods in order.
func (w world) sync() {
	w.Helper()
	const name = "settled"
	pod := w.runningPod(name, "settled")
	w.delete(name)
	w.waitGone(name, pod.UID)
}

func (w world) delete(name string) {
	w.Helper()
	w.check(client.CoreV1().Pods(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// patch merges into a pod, like an operator that changes an image in place.
func (w world) patch(name string, patch map[string]any) {
	w.Helper()
	data, err := json.Marshal(patch)
	w.check(err)
	_, err = client.CoreV1().Pods(w.namespace).
		Patch(w.Context(), name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
	w.check(err)
}

// setImage changes the image of the pod "p".
func (w world) setImage(image string) {
	w.Helper()
	w.patch("p", map[string]any{
		"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "image": image}}},
	})
}

func withPolicy(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }
}

func podCondition(p *corev1.Pod, conditionType corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == conditionType {
			return c
		}
	}
	return corev1.PodCondition{}
}

func ready(p *corev1.Pod) corev1.ConditionStatus { return podCondition(p, corev1.PodReady).Status }

func nodeReady(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// waiting returns the reason for which the first container waits, or "".
func waiting(p *corev1.Pod) string {
	if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil {
		return ""
	}
	return p.Status.ContainerStatuses[0].State.Waiting.Reason
}

func show(object any) string {
	data, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}
