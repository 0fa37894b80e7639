package kubelet_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

func TestDisconnectAndReconnectNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.runningPod("stays", "web:1")
	goes := w.runningPod("goes", "web:1")
	forced := w.runningPod("forced", "web:1")
	w.check(simulator.DisconnectNode(t.Context(), w.node))

	node, err := client.CoreV1().Nodes().Get(t.Context(), w.node, metav1.GetOptions{})
	w.check(err)
	if status := nodeReady(node); status != corev1.ConditionUnknown {
		t.Errorf("the node is Ready=%s, want Unknown", status)
	}
	var effects []corev1.TaintEffect
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeUnreachable {
			effects = append(effects, taint.Effect)
		}
	}
	if diff := cmp.Diff([]corev1.TaintEffect{"NoSchedule", "NoExecute"}, effects); diff != "" {
		t.Errorf("taints for unreachable nodes (-want +got):\n%s", diff)
	}
	stays, err := client.CoreV1().Pods(w.namespace).Get(t.Context(), "stays", metav1.GetOptions{})
	w.check(err)
	if ready(stays) != corev1.ConditionFalse {
		t.Errorf("its pod is Ready=%s, want False", ready(stays))
	}
	if diff := cmp.Diff(before.Status.ContainerStatuses, stays.Status.ContainerStatuses); diff != "" {
		t.Errorf("the status of its containers has changed (-before +after):\n%s", diff)
	}

	w.delete("goes")
	w.pod("late", "web:1")
	w.check(client.CoreV1().Pods(w.namespace).Delete(t.Context(), "forced", *metav1.NewDeleteOptions(0)))
	w.waitGone("forced", forced.UID)
	w.syncOnOtherNode()
	pod, err := client.CoreV1().Pods(w.namespace).Get(t.Context(), "goes", metav1.GetOptions{})
	w.check(err)
	if pod.UID != goes.UID || pod.Status.Phase != corev1.PodRunning {
		t.Errorf("a pod that is deleted on a lost node has phase %s, want Running", pod.Status.Phase)
	}
	late := w.waitPod("late", "it is there", func(*corev1.Pod) bool { return true })
	if len(late.Status.ContainerStatuses) > 0 {
		t.Error("a pod was started on a lost node")
	}

	w.check(simulator.ReconnectNode(t.Context(), w.node))
	w.waitGone("goes", goes.UID)
	w.waitReady("stays")
	w.waitReady("late")
	w.runningPod("new", "web:1")
}

// syncOnOtherNode is sync with another node.
func (w world) syncOnOtherNode() {
	w.Helper()
	elsewhere := w
	elsewhere.node = w.node + "-elsewhere"
	w.createNode(kubelet.NewNode(elsewhere.node))
	elsewhere.sync()
}

func TestUnknownNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := simulator.DisconnectNode(t.Context(), "nowhere"); err == nil {
		t.Error("a node that does not exist was lost")
	}
	if err := simulator.ReconnectNode(w.Context(), "nowhere"); err == nil {
		t.Error("a node that does not exist came back")
	}
}
