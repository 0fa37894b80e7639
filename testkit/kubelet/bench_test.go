package kubelet_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// follow reads events until enough returns true.
func follow(b *testing.B, events watch.Interface, enough func(watch.Event) bool) {
	b.Helper()
	deadline := time.After(timeout)
	for {
		select {
		case event := <-events.ResultChan():
			if enough(event) {
				return
			}
		case <-deadline:
			b.Fatal("waiting for an event: it does not come")
		}
	}
}

// BenchmarkNode measures the time until a new node is Ready and free of taints.
func BenchmarkNode(b *testing.B) {
	events, err := client.CoreV1().Nodes().Watch(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer events.Stop()
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprintf("bench-%d-%d", b.N, i)
		createNode(b, name)
		follow(b, events, func(e watch.Event) bool {
			node, ok := e.Object.(*corev1.Node)
			return ok && node.Name == name && nodeReady(node) == corev1.ConditionTrue && len(node.Spec.Taints) == 0
		})
	}
}

func createNode(b *testing.B, name string) {
	b.Helper()
	_, err := client.CoreV1().Nodes().Create(b.Context(), kubelet.NewNode(name), metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx := context.WithoutCancel(b.Context())
		if err := client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkPod measures the time until a pod with a node is Ready, and until a deleted pod is gone, as observed by a
// watch.
func BenchmarkPod(b *testing.B) {
	const namespace, node = "default", "bench"
	createNode(b, node)
	events, err := client.CoreV1().Pods(namespace).Watch(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer events.Stop()
	var running, gone time.Duration
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprintf("bench-%d-%d", b.N, i)
		start := time.Now()
		_, err := client.CoreV1().Pods(namespace).Create(b.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app", Image: "web:1"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		follow(b, events, func(e watch.Event) bool {
			pod, ok := e.Object.(*corev1.Pod)
			return ok && pod.Name == name && ready(pod) == corev1.ConditionTrue
		})
		running += time.Since(start)

		start = time.Now()
		if err := client.CoreV1().Pods(namespace).Delete(b.Context(), name, metav1.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		follow(b, events, func(e watch.Event) bool {
			pod, ok := e.Object.(*corev1.Pod)
			return ok && pod.Name == name && e.Type == watch.Deleted
		})
		gone += time.Since(start)
	}
	b.ReportMetric(float64(running.Microseconds())/1000/float64(b.N), "ms-to-ready")
	b.ReportMetric(float64(gone.Microseconds())/1000/float64(b.N), "ms-to-gone")
}
