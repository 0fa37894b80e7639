package gen

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// setup is an operator given as a function.
type setup func(mgr manager.Manager) error

// SetupInNamespaces implements testkit.Runnable. The cache of the manager is limited to the test's namespace.
func (s setup) SetupInNamespaces(mgr manager.Manager, _ ...string) error { return s(mgr) }

// panicky panics on frozen objects.
func panicky(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&v1.Proxy{}).Complete(reconcile.Func(
		func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			p := &v1.Proxy{}
			if err := mgr.GetClient().Get(ctx, req.NamespacedName, p); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			if p.Spec.Frozen {
				panic("frozen is not supported")
			}
			if p.Status.ObservedGeneration == p.Generation {
				return reconcile.Result{}, nil
			}
			p.Status.ObservedGeneration = p.Generation
			return reconcile.Result{}, client.IgnoreNotFound(mgr.GetClient().Status().Update(ctx, p))
		}))
}

// givesUp creates a CronJob for a Backup, and never retries after the API server rejected the CronJob.
func givesUp(mgr manager.Manager) error {
	var mu sync.Mutex
	failed := map[types.UID]bool{}
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).For(&v1.Backup{}).Owns(&batchv1.CronJob{}).Complete(reconcile.Func(
		func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			b := &v1.Backup{}
			if err := c.Get(ctx, req.NamespacedName, b); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			if failed[b.UID] {
				return reconcile.Result{}, observe(ctx, c, b)
			}
			job := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Name}}
			_, err := controllerutil.CreateOrUpdate(ctx, c, job, func() error {
				job.Spec.Schedule = "@" + b.Spec.Schedule
				pod := &job.Spec.JobTemplate.Spec.Template.Spec
				pod.RestartPolicy = corev1.RestartPolicyNever
				args := slices.Sorted(maps.Keys(b.Spec.Options))
				pod.Containers = []corev1.Container{{
					Name: "backup", Image: "backup", Args: args, ImagePullPolicy: corev1.PullAlways,
					TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				}}
				return controllerutil.SetControllerReference(b, job, c.Scheme(), controllerutil.WithBlockOwnerDeletion(false))
			})
			if apierrors.IsInvalid(err) {
				failed[b.UID] = true
			} else if err != nil {
				return reconcile.Result{}, fmt.Errorf("applying the CronJob: %w", err)
			}
			return reconcile.Result{}, observe(ctx, c, b)
		}))
}

// observe writes the observed generation.
func observe(ctx context.Context, c client.Client, b *v1.Backup) error {
	if b.Status.ObservedGeneration == b.Generation {
		return nil
	}
	b.Status.ObservedGeneration = b.Generation
	return client.IgnoreNotFound(c.Status().Update(ctx, b))
}
