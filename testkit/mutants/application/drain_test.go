package application_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

// replicas is one more than there are simulated nodes, so that two pods share a node.
const replicas = 4

// Drain empties a node as far as a PodDisruptionBudget permits, and leaves the pods of DaemonSets.
func TestDrain(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private())
	if onRealNodes {
		k.LoadPackage("member:1", "github.com/homeostat-dev/homeostat/testkit/cmd/web")
	}
	web, agent := deployment(), daemonSet()
	k.Apply(web)
	k.Apply(agent)
	most := intstr.FromInt32(1)
	k.Apply(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: web.Spec.Selector},
	})
	available := testkit.Match("all pods are available", func(d *appsv1.Deployment) bool {
		return d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == replicas
	})
	k.Eventually(web, available)
	k.Eventually(agent, testkit.Match("all pods are available", func(d *appsv1.DaemonSet) bool {
		return d.Status.DesiredNumberScheduled > 1 && d.Status.NumberAvailable == d.Status.DesiredNumberScheduled
	}))
	drained := fullestNode(k, web)
	k.Node(drained).Drain()
	for node, n := range podsByNode(k, web) {
		if node == drained && n > 0 {
			t.Errorf("%d pods are left on %s", n, node)
		}
	}
	if n := podsByNode(k, agent)[drained]; n != 1 {
		t.Errorf("%s has %d pods of the DaemonSet, want 1", drained, n)
	}
	k.Eventually(web, available)
	wasAvailable := false
	for _, state := range k.States(web) {
		n, _, err := unstructured.NestedInt64(state.Object, "status", "availableReplicas")
		if err != nil {
			t.Fatal(err)
		}
		wasAvailable = wasAvailable || n == replicas
		if wasAvailable && n < replicas-1 {
			t.Errorf("%d pods were available, although the PodDisruptionBudget permits %d", n, replicas-1)
		}
	}
	k.Node(drained).Uncordon()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: drained}}
	k.Get(node)
	if node.Spec.Unschedulable {
		t.Errorf("%s is unschedulable", drained)
	}
}

// podsByNode returns the number of pods of a workload on each node, without those that are being deleted.
func podsByNode(k *testkit.K, of client.Object) map[string]int {
	var pods corev1.PodList
	k.Wait("the pods are listed", func(ctx context.Context) error {
		return k.Client.List(ctx, &pods, client.InNamespace(k.Namespace), client.MatchingLabels{"app": of.GetName()})
	})
	nodes := map[string]int{}
	for _, p := range pods.Items {
		if p.DeletionTimestamp.IsZero() {
			nodes[p.Spec.NodeName]++
		}
	}
	return nodes
}

func fullestNode(k *testkit.K, of client.Object) string {
	nodes, fullest := podsByNode(k, of), ""
	for node, n := range nodes {
		if n > nodes[fullest] {
			fullest = node
		}
	}
	return fullest
}

func podTemplate(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "member:1"}}},
	}
}

func deployment() *appsv1.Deployment {
	n := int32(replicas)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	d.Spec.Replicas = &n
	d.Spec.Template = podTemplate("web")
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: d.Spec.Template.Labels}
	return d
}

func daemonSet() *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}
	d.Spec.Template = podTemplate("agent")
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: d.Spec.Template.Labels}
	return d
}
