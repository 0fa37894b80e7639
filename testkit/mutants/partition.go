package mutants

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

func partitionMutants() class {
	return class{
		name: "partition", setup: setupPortals, account: constantAccount("portal"),
		flaws: []flaw{{readyOnce, "Condition Ready is set once. It stays when the front does not reach the other pod."}},
		steps: []Step{{"create", func(k *testkit.K) {
			k.Apply(&v1.Portal{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1.PortalSpec{Image: "portal:1"}})
		}}},
	}
}

func setupPortals(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &portals{newOperator(mgr, b)}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Portal{}).Owns(&appsv1.Deployment{}).Owns(&corev1.Service{}).
			Complete(newReconciler(r.reconcile))
	}
}

type portals struct{ operator }

func (r *portals) reconcile(ctx context.Context, req reconcile.Request) error {
	p := &v1.Portal{}
	if err := r.Get(ctx, req.NamespacedName, p); err != nil || !p.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	before := p.DeepCopy()
	if err := r.applyService(ctx, p, p.Name, webPort); err != nil {
		return err
	}
	state := readyCondition()
	for _, name := range []string{p.Name, p.Name + "-front"} {
		d := &appsv1.Deployment{ObjectMeta: childMeta(p, name)}
		if err := r.apply(ctx, p, d, func() { setPortal(p, d) }); err != nil {
			return err
		}
		complete := d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == 1 &&
			d.Status.Replicas == 1 && d.Status.AvailableReplicas == 1
		if !complete && (r.bug != readyOnce || !meta.IsStatusConditionTrue(p.Status.Conditions, "Ready")) {
			state = metav1.Condition{Status: metav1.ConditionFalse, Reason: "NotAvailable", Message: "a pod is not Ready"}
		}
	}
	return r.updateStatus(ctx, before, p, state)
}

// webPort is the port of the server in all pods.
const webPort = 8080

// setPortal sets the fields of a Deployment. The pod of the front is on another node than the pod that it needs.
func setPortal(p *v1.Portal, d *appsv1.Deployment) {
	labels := map[string]string{"app": d.Name}
	d.Spec.Replicas = new(int32(1))
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	pod := &d.Spec.Template.Spec
	if len(pod.Containers) == 0 {
		pod.Containers = []corev1.Container{{Name: "portal", ReadinessProbe: probe()}}
	}
	pod.Containers[0].Image = p.Spec.Image
	if d.Name == p.Name {
		return
	}
	ready := pod.Containers[0].ReadinessProbe
	ready.HTTPGet.Path = "/get?url=http://" + p.Name + ":8080/"
	ready.TimeoutSeconds = 2 // the server waits for a second
	ready.FailureThreshold = 3
	pod.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey:   corev1.LabelHostname,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Name}},
		}},
	}}
}
