// Package before implements the operator with care on kubebuilder's scaffold.
package before

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/api"
)

const finalizerName = "convert.homeostat.dev/target"

// Reconciler reconciles Webapps.
type Reconciler struct {
	client.Client
	Scheme     *runtime.Scheme
	Monitoring string // the namespace of the scrape targets
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&api.Webapp{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(ownerOf)).
		Complete(r)
}

// ownerOf maps a target to its Webapp by labels, because an owner reference cannot cross namespaces.
func ownerOf(_ context.Context, target client.Object) []reconcile.Request {
	of := types.NamespacedName{Namespace: target.GetLabels()["webapp-namespace"], Name: target.GetLabels()["webapp"]}
	if of.Namespace == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: of}}
}

// Reconcile creates or updates the children and writes the status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	app := &api.Webapp{}
	if err := r.Get(ctx, req.NamespacedName, app); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !app.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, app)
	}
	if controllerutil.AddFinalizer(app, finalizerName) {
		if err := r.Update(ctx, app); err != nil {
			return ctrl.Result{}, fmt.Errorf("adding the finalizer: %w", err)
		}
	}
	deployment, err := r.children(ctx, app)
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return ctrl.Result{}, err // the cache was stale: retry
	}
	return ctrl.Result{}, errors.Join(err, r.status(ctx, app, deployment, err))
}

// finalize deletes the target, because garbage collection cannot cross namespaces.
func (r *Reconciler) finalize(ctx context.Context, app *api.Webapp) error {
	if !controllerutil.ContainsFinalizer(app, finalizerName) {
		return nil
	}
	ours := client.MatchingLabels(targetLabels(app))
	if err := r.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(r.Monitoring), ours); err != nil {
		return fmt.Errorf("deleting the target: %w", err)
	}
	controllerutil.RemoveFinalizer(app, finalizerName)
	if err := r.Update(ctx, app); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}

// children creates or updates the children. Each mutate function sets only the desired fields: to replace a whole spec would
// remove the API server's defaults and cause a write in every reconcile.
func (r *Reconciler) children(ctx context.Context, app *api.Webapp) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	target := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Monitoring, Name: app.Namespace + "." + app.Name}}
	for _, child := range []struct {
		object client.Object
		mutate func() error
	}{
		{deployment, func() error {
			mutateDeployment(deployment, app)
			return controllerutil.SetControllerReference(app, deployment, r.Scheme)
		}},
		{service, func() error {
			mutateService(service, app)
			return controllerutil.SetControllerReference(app, service, r.Scheme)
		}},
		{target, func() error {
			mutateTarget(target, app)
			return nil
		}},
	} {
		if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, child.object, child.mutate); err != nil {
			return deployment, fmt.Errorf("bringing about %T %s: %w", child.object, child.object.GetName(), err)
		}
	}
	return deployment, nil
}

func mutateDeployment(d *appsv1.Deployment, app *api.Webapp) {
	label(d, labels(app))
	d.Spec.Replicas = &app.Spec.Replicas
	if d.CreationTimestamp.IsZero() { // the selector is immutable
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: selector(app)}
	}
	d.Spec.Template.Labels = selector(app)
	pod := &d.Spec.Template.Spec
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == "web" })
	if i < 0 {
		i = len(pod.Containers)
		pod.Containers = append(pod.Containers, corev1.Container{Name: "web"})
	}
	web := &pod.Containers[i]
	web.Image = app.Spec.Image
	web.Env = []corev1.EnvVar{{Name: "PORT", Value: strconv.Itoa(int(app.Spec.Port))}}
	if len(web.Ports) != 1 {
		web.Ports = make([]corev1.ContainerPort, 1)
	}
	web.Ports[0].Name = "http"
	web.Ports[0].ContainerPort = app.Spec.Port
}

func mutateService(s *corev1.Service, app *api.Webapp) {
	label(s, labels(app))
	s.Spec.Selector = selector(app)
	if len(s.Spec.Ports) != 1 {
		s.Spec.Ports = make([]corev1.ServicePort, 1)
	}
	s.Spec.Ports[0].Name = "http"
	s.Spec.Ports[0].Port = app.Spec.Port
	s.Spec.Ports[0].TargetPort = intstr.FromInt32(app.Spec.Port)
}

func mutateTarget(c *corev1.ConfigMap, app *api.Webapp) {
	label(c, targetLabels(app))
	c.Data = map[string]string{"target": app.Name + "." + app.Namespace + ".svc:" + strconv.Itoa(int(app.Spec.Port))}
}

func selector(app *api.Webapp) map[string]string { return map[string]string{"webapp": app.Name} }

func labels(app *api.Webapp) map[string]string {
	return map[string]string{"webapp": app.Name, "app.kubernetes.io/managed-by": "webapp"}
}

func targetLabels(app *api.Webapp) map[string]string {
	labels := labels(app)
	labels["webapp-namespace"] = app.Namespace
	return labels
}

func label(o client.Object, labels map[string]string) {
	all := o.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	o.SetLabels(all)
}

// status writes the status if it has changed.
func (r *Reconciler) status(ctx context.Context, app *api.Webapp, d *appsv1.Deployment, failure error) error {
	was := app.Status.DeepCopy()
	app.Status.ReadyReplicas = d.Status.ReadyReplicas
	app.Status.ObservedGeneration = app.Generation
	status, reason, message := metav1.ConditionFalse, "Progressing", "waiting for the pods of Deployment "+d.Name
	switch {
	case failure != nil:
		reason, message = "Failed", failure.Error()
	case available(d):
		status, reason, message = metav1.ConditionTrue, "Succeeded", ""
	}
	meta.SetStatusCondition(&app.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: status, Reason: reason, Message: message, ObservedGeneration: app.Generation,
	})
	if equality.Semantic.DeepEqual(was, &app.Status) {
		return nil
	}
	return r.Status().Update(ctx, app)
}

func available(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration == d.Generation && d.Status.Replicas == *d.Spec.Replicas &&
		d.Status.UpdatedReplicas == *d.Spec.Replicas && d.Status.AvailableReplicas == *d.Spec.Replicas
}
