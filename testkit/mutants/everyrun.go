package mutants

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator that ignores an edit or a removal in every run, with or without a fault.
const (
	urlStays     bug = "url-stays"
	oldName      bug = "old-name"
	imageIgnored bug = "image-ignored"
)

func everyRunMutants() class {
	return class{
		name: "every-run", setup: setupApps, account: constantAccount("app"),
		flaws: []flaw{
			{urlStays, "The URL stays in the status after the host is removed from the spec."},
			{oldName, "The Service of another host is created. That of the old host is not deleted."},
			{imageIgnored, "The CronJob is created, but never updated. Another image has no effect."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) { k.Apply(newApp("shop", "shop:1")) }},
			{"change the image", func(k *testkit.K) { k.Apply(newApp("shop", "shop:2")) }},
			{"change the host", func(k *testkit.K) { k.Apply(newApp("store", "shop:2")) }},
			{"remove the host", func(k *testkit.K) { k.Apply(newApp("", "shop:2")) }},
			{"set a host", func(k *testkit.K) { k.Apply(newApp("mall", "shop:2")) }},
		},
	}
}

func newApp(host, image string) *v1.App {
	return &v1.App{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1.AppSpec{Host: host, Image: image}}
}

func setupApps(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &apps{newOperator(mgr, b)}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.App{}).Owns(&corev1.Service{}).Owns(&batchv1.CronJob{}).
			Complete(newReconciler(r.reconcile))
	}
}

type apps struct{ operator }

func (r *apps) reconcile(ctx context.Context, req reconcile.Request) error {
	a := &v1.App{}
	if err := r.Get(ctx, req.NamespacedName, a); err != nil || !a.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	before := a.DeepCopy()
	if err := r.applyCronJob(ctx, a); err != nil {
		return err
	}
	if a.Spec.Host != "" {
		if err := r.applyService(ctx, a, a.Spec.Host, 80); err != nil {
			return err
		}
		a.Status.URL = "http://" + a.Spec.Host
	} else if r.bug != urlStays {
		a.Status.URL = ""
	}
	if err := r.deleteOthers(ctx, a); err != nil {
		return err
	}
	return r.updateStatus(ctx, before, a, readyCondition())
}

// deleteOthers deletes the Services of former hosts.
func (r *apps) deleteOthers(ctx context.Context, a *v1.App) error {
	list := &corev1.ServiceList{}
	if err := r.List(ctx, list, client.InNamespace(a.Namespace)); err != nil {
		return fmt.Errorf("listing the Services: %w", err)
	}
	for i := range list.Items {
		service := &list.Items[i]
		if service.Name == a.Spec.Host || !metav1.IsControlledBy(service, a) || r.bug == oldName && a.Spec.Host != "" {
			continue
		}
		if err := r.delete(ctx, service); err != nil {
			return err
		}
	}
	return nil
}

func (r *apps) applyCronJob(ctx context.Context, a *v1.App) error {
	job := &batchv1.CronJob{ObjectMeta: childMeta(a, a.Name)}
	return r.apply(ctx, a, job, func() {
		if r.bug == imageIgnored && job.ResourceVersion != "" {
			return
		}
		job.Spec.Schedule = "@daily"
		job.Spec.Suspend = new(false)
		pod := &job.Spec.JobTemplate.Spec.Template.Spec
		pod.RestartPolicy = corev1.RestartPolicyOnFailure
		if len(pod.Containers) != 1 {
			pod.Containers = make([]corev1.Container, 1)
		}
		pod.Containers[0].Name = "app" // defaults of the API server stay
		pod.Containers[0].Image = a.Spec.Image
	})
}
