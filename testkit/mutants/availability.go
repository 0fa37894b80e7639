package mutants

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator of a Deployment.
const (
	noticeStays  bug = "notice-stays"
	scalesUp     bug = "scales-up"
	rollsBack    bug = "rolls-back"
	existsIsGood bug = "exists-is-good"
	countsFailed bug = "counts-failed"
	failedOnce   bug = "failed-once"
)

func availabilityMutants() class {
	return class{
		name: "availability", setup: setupSites, account: constantAccount("site"),
		flaws: []flaw{
			{noticeStays, "Without a Ready pod the route leads to a notice. It is never changed back."},
			{scalesUp, "Without a Ready pod the Deployment gets one more replica, and keeps it."},
			{rollsBack, "Without a Ready pod the Deployment gets the previous image, and keeps it."},
			{existsIsGood, "Condition Ready means that the Deployment exists."},
			{countsFailed, "A pod that has failed is counted, although another one has replaced it."},
			{failedOnce, "A pod that has failed is the end: the operator reports it, although another one has replaced it."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) { k.Apply(newSite("site:1")) }},
			{"change the image", func(k *testkit.K) { k.Apply(newSite("site:2")) }},
		},
	}
}

func newSite(image string) *v1.Site {
	return &v1.Site{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1.SiteSpec{Image: image, Replicas: 1}}
}

func setupSites(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &sites{newOperator(mgr, b)}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Site{}).Owns(&appsv1.Deployment{}).Owns(&corev1.ConfigMap{}).
			Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(siteOf)).
			Complete(newReconciler(r.reconcile))
	}
}

// siteOf returns the Site of a pod.
func siteOf(_ context.Context, pod client.Object) []reconcile.Request {
	key := types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetLabels()["app"]}
	return []reconcile.Request{{NamespacedName: key}}
}

type sites struct{ operator }

func (r *sites) reconcile(ctx context.Context, req reconcile.Request) error {
	s := &v1.Site{}
	if err := r.Get(ctx, req.NamespacedName, s); err != nil || !s.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	before := s.DeepCopy()
	d := &appsv1.Deployment{ObjectMeta: childMeta(s, s.Name)}
	if err := r.apply(ctx, s, d, func() { r.setDeployment(s, d) }); err != nil {
		return err
	}
	pods := &corev1.PodList{}
	if err := r.List(ctx, pods, client.InNamespace(s.Namespace), client.MatchingLabels{"app": s.Name}); err != nil {
		return fmt.Errorf("listing the pods: %w", err)
	}
	if err := r.applyRoute(ctx, s, d.Status.ReadyReplicas > 0, r.count(pods.Items)); err != nil {
		return err
	}
	state := readyCondition()
	complete := d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == *d.Spec.Replicas &&
		d.Status.AvailableReplicas == *d.Spec.Replicas && d.Status.Replicas == *d.Spec.Replicas
	if !complete && r.bug != existsIsGood {
		state = metav1.Condition{Status: metav1.ConditionFalse, Reason: "NotAvailable", Message: "pods are not Ready"}
	}
	if r.bug == failedOnce && slices.ContainsFunc(pods.Items, hasFailed) {
		state = metav1.Condition{Status: metav1.ConditionFalse, Reason: "PodFailed", Message: "a pod has failed"}
	}
	return r.updateStatus(ctx, before, s, state)
}

// count returns the number of pods that may serve.
func (r *sites) count(pods []corev1.Pod) int {
	n := 0
	for i := range pods {
		if pods[i].DeletionTimestamp.IsZero() && (r.bug == countsFailed || !hasFailed(pods[i])) {
			n++
		}
	}
	return n
}

func hasFailed(pod corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed }

// setDeployment sets the fields of the Deployment. One with a status has had pods, or waits for them.
func (r *sites) setDeployment(s *v1.Site, d *appsv1.Deployment) {
	replicas, image := s.Spec.Replicas, s.Spec.Image
	down := d.Status.ObservedGeneration > 0 && d.Status.Replicas > 0 && d.Status.ReadyReplicas == 0 && wasAvailable(d)
	switch {
	case r.bug == scalesUp && (down || d.Spec.Replicas != nil && *d.Spec.Replicas > replicas):
		replicas++
	case r.bug == rollsBack && (down || d.Annotations["rolled-back"] != ""):
		metav1.SetMetaDataAnnotation(&d.ObjectMeta, "rolled-back", "true")
		image = "site:0"
	}
	labels := map[string]string{"app": s.Name}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	if len(d.Spec.Template.Spec.Containers) == 0 {
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "site", ReadinessProbe: probe()}}
	}
	d.Spec.Template.Spec.Containers[0].Image = image
}

// wasAvailable reports whether the Deployment has been available with its present pods: it makes progress no more.
func wasAvailable(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Reason == "NewReplicaSetAvailable"
	})
}

// applyRoute writes where requests go, and to how many pods.
func (r *sites) applyRoute(ctx context.Context, s *v1.Site, serves bool, pods int) error {
	route := &corev1.ConfigMap{ObjectMeta: childMeta(s, s.Name+"-route")}
	to := "notice"
	if serves {
		to = "pods"
	}
	return r.apply(ctx, s, route, func() {
		data := map[string]string{"to": to, "pods": strconv.Itoa(pods)}
		if served := route.Data["served"]; r.bug == noticeStays && (serves || served != "") {
			if served != "" && route.Data["to"] == "notice" {
				return
			}
			data["served"] = "yes"
		}
		route.Data = data
	})
}
