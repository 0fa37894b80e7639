package kubelet_test

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/kubelet"
)

// DisconnectNode must be compatible with the reactions of the controllers of a real control plane.
func TestNodeLostUnderControllers(t *testing.T) {
	t.Parallel()
	w, sim := startWorkloads(t)
	w.deploy()
	old := w.wait("the pod is Ready", func(pods []corev1.Pod) bool {
		return len(pods) == 1 && ready(&pods[0]) == corev1.ConditionTrue
	})[0]

	if err := sim.DisconnectNode(t.Context(), old.Spec.NodeName); err != nil {
		t.Fatal(err)
	}
	w.wait("another pod is Ready on the other node, and the old one hangs", func(pods []corev1.Pod) bool {
		hangs, moved := false, false
		for _, p := range pods {
			hangs = hangs || p.UID == old.UID && p.DeletionTimestamp != nil && p.Status.Phase == corev1.PodRunning
			moved = moved || p.Spec.NodeName != old.Spec.NodeName && ready(&p) == corev1.ConditionTrue
		}
		return hangs && moved
	})

	if err := sim.ReconnectNode(t.Context(), old.Spec.NodeName); err != nil {
		t.Fatal(err)
	}
	w.wait("the old pod is gone", func(pods []corev1.Pod) bool {
		return len(pods) == 1 && pods[0].UID != old.UID
	})
}

type workloads struct {
	*testing.T

	client kubernetes.Interface
}

// startWorkloads starts a control plane with controllers and two nodes.
func startWorkloads(t *testing.T) (workloads, *kubelet.Kubelet) {
	t.Helper()
	set, err := assets.Find(t.Context(), assets.Options{Programs: cluster.Programs(cluster.Workloads)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Options{Binaries: set.Dir, Tier: cluster.Workloads, Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	sim, err := kubelet.New(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return workloads{T: t, client: kubernetes.NewForConfigOrDie(c.Config())}, sim
}

// deploy creates a Deployment of one pod that does not stay on a lost node for the usual five minutes.
func (w workloads) deploy() {
	w.Helper()
	labels := map[string]string{"app": "web"}
	_, err := w.client.AppsV1().Deployments("default").Create(w.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "web", Image: "web:1"}},
					Tolerations: []corev1.Toleration{{
						Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists,
						Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(0)),
					}},
				},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

func (w workloads) wait(what string, done func([]corev1.Pod) bool) []corev1.Pod {
	w.Helper()
	var list *corev1.PodList
	err := wait.PollUntilContextTimeout(w.Context(), 10*time.Millisecond, timeout, true,
		func(ctx context.Context) (bool, error) {
			var err error
			list, err = w.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			return err == nil && done(list.Items), err
		})
	if err != nil {
		w.Fatalf("waiting until %s: %v; the pods are %s", what, err, show(list))
	}
	return list.Items
}
