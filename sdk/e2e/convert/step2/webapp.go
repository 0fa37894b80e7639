// Package step2 is step1 with sdk/conditions for the status.
package step2

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/api"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/desired"
)

const finalizerName = "convert.homeostat.dev/target"

// Reconciler reconciles Webapps.
type Reconciler struct {
	client.Client
	Manager    *apply.FieldManager
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

// Reconcile applies the children and writes the status.
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
	if errors.Is(err, apply.ErrStale) {
		return ctrl.Result{}, err // the cache was stale: retry
	}
	return ctrl.Result{}, errors.Join(err, r.status(ctx, app, deployment, err))
}

// finalize deletes the target, because garbage collection cannot cross namespaces.
func (r *Reconciler) finalize(ctx context.Context, app *api.Webapp) error {
	if !controllerutil.ContainsFinalizer(app, finalizerName) {
		return nil
	}
	ours := client.MatchingLabels(desired.Target(app, r.Monitoring).Labels)
	if err := r.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace(r.Monitoring), ours); err != nil {
		return fmt.Errorf("deleting the target: %w", err)
	}
	controllerutil.RemoveFinalizer(app, finalizerName)
	if err := r.Update(ctx, app); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}

// children applies the children.
func (r *Reconciler) children(ctx context.Context, app *api.Webapp) (*appsv1.Deployment, error) {
	deployment := desired.Deployment(app)
	controlled := apply.ControlledBy(app)
	for _, child := range []client.Object{deployment, desired.Service(app)} {
		if _, err := r.Manager.Apply(ctx, r.Client, child, controlled); err != nil {
			return deployment, err
		}
	}
	return deployment, r.target(ctx, app)
}

// target applies the target. A target of the form before has no owner label and is adopted by its other labels.
func (r *Reconciler) target(ctx context.Context, app *api.Webapp) error {
	target, labeled := desired.Target(app, r.Monitoring), apply.LabeledBy(app)
	intent, err := apply.NewIntent(target, r.Client.Scheme(), labeled)
	if err != nil {
		return err
	}
	live := &corev1.ConfigMap{}
	if err := r.Get(ctx, intent.Key, live); client.IgnoreNotFound(err) != nil {
		return err
	}
	legacy := labels.SelectorFromSet(target.Labels).Matches(labels.Set(live.Labels)) && live.Labels[apply.OwnerUIDLabel] == ""
	if legacy {
		return r.Manager.Update(ctx, r.Client, intent, live, target)
	}
	_, err = r.Manager.Apply(ctx, r.Client, target, labeled)
	return err
}

// status writes the status if it has changed.
func (r *Reconciler) status(ctx context.Context, app *api.Webapp, d *appsv1.Deployment, failure error) error {
	was := app.Status.DeepCopy()
	app.Status.ReadyReplicas = d.Status.ReadyReplicas
	var ownership *apply.OwnershipError
	switch {
	case apierrors.IsInvalid(failure), errors.As(failure, &ownership):
		conditions.MarkStalled(app, "Refused", failure.Error())
	case failure != nil:
		conditions.MarkRetrying(app, "Failed", failure.Error())
	case !available(d):
		conditions.MarkReconciling(app, "Progressing", "waiting for the pods of Deployment "+d.Name)
	default:
		conditions.MarkReady(app, "")
	}
	if equality.Semantic.DeepEqual(was, &app.Status) {
		return nil
	}
	return r.Status().Update(ctx, app)
}

func available(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration == d.Generation && d.Status.Replicas == *d.Spec.Replicas &&
		d.Status.UpdatedReplicas == *d.Spec.Replicas && d.Status.AvailableReplicas == *d.Spec.Replicas
}
