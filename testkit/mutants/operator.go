package mutants

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// finalizer keeps an object until its external state has been cleaned up.
const finalizer = "mutants.homeostat.dev/cleanup"

// An operator holds the common parts of all operators.
type operator struct {
	client.Client               // reads from the informers' cache, which may be stale
	apiReader     client.Reader // reads from the API server

	bug bug
}

func newOperator(mgr manager.Manager, b bug) operator {
	return operator{Client: mgr.GetClient(), apiReader: mgr.GetAPIReader(), bug: b}
}

// object is a custom resource.
type object interface {
	client.Object
	CommonStatus() *v1.Status
}

// errStale ends a reconcile that has newer state than the cache. The event that the cache waits for triggers the next
// one.
var errStale = errors.New("the cache is behind")

// errForeign is returned if another owner has created an object with the name of a child.
var errForeign = errors.New("it belongs to another owner")

// newReconciler returns a reconciler. An error causes a retry.
func newReconciler(f func(context.Context, reconcile.Request) error) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		err := f(ctx, req)
		if errors.Is(err, errStale) {
			err = nil
		}
		return reconcile.Result{}, err
	})
}

// apply creates child, owned by owner, or updates the fields that set modifies.
func (o *operator) apply(ctx context.Context, owner, child client.Object, set func()) error {
	return o.applyUnowned(ctx, owner, child, func() error {
		if child.GetResourceVersion() != "" && !metav1.IsControlledBy(child, owner) {
			return errForeign
		}
		set()
		return controllerutil.SetControllerReference(owner, child, o.Scheme(), controllerutil.WithBlockOwnerDeletion(false))
	})
}

// applyUnowned is apply for a child without an owner reference. set returns errForeign for a foreign object.
func (o *operator) applyUnowned(ctx context.Context, owner, child client.Object, set func() error) error {
	_, err := controllerutil.CreateOrUpdate(ctx, o, child, func() error {
		if child.GetResourceVersion() == "" {
			// The cache may still contain a deleted owner. Its child would be garbage.
			if err := o.checkOwner(ctx, owner); err != nil {
				return err
			}
		}
		return set()
	})
	if err != nil {
		return fmt.Errorf("applying %T %s: %w", child, child.GetName(), err)
	}
	return nil
}

// checkOwner reads owner from the API server, and returns errStale if it has been deleted.
func (o *operator) checkOwner(ctx context.Context, owner client.Object) error {
	now := &metav1.PartialObjectMetadata{}
	gvk, err := o.GroupVersionKindFor(owner)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", owner, err)
	}
	now.SetGroupVersionKind(gvk)
	err = o.apiReader.Get(ctx, client.ObjectKeyFromObject(owner), now)
	switch {
	case apierrors.IsNotFound(err):
		return errStale
	case err != nil:
		return fmt.Errorf("looking for %s: %w", owner.GetName(), err)
	case now.UID != owner.GetUID() || !now.DeletionTimestamp.IsZero():
		return errStale
	}
	return nil
}

// delete deletes the object that was read, but not a new one of the same name.
func (o *operator) delete(ctx context.Context, obj client.Object) error {
	err := o.Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %T %s: %w", obj, obj.GetName(), err)
	}
	return nil
}

// deleteChild deletes a child of owner if it exists.
func (o *operator) deleteChild(ctx context.Context, owner, child client.Object) error {
	err := o.Get(ctx, client.ObjectKeyFromObject(child), child)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading %T %s: %w", child, child.GetName(), err)
	case !metav1.IsControlledBy(child, owner):
		return nil
	}
	return o.delete(ctx, child)
}

// applyService applies a Service for the pods of an app of the same name as owner.
func (o *operator) applyService(ctx context.Context, owner client.Object, name string, port int32) error {
	s := &corev1.Service{ObjectMeta: childMeta(owner, name)}
	return o.apply(ctx, owner, s, func() {
		s.Spec.Type = corev1.ServiceTypeClusterIP
		s.Spec.SessionAffinity = corev1.ServiceAffinityNone
		s.Spec.Selector = map[string]string{"app": owner.GetName()}
		s.Spec.Ports = []corev1.ServicePort{{Port: port, TargetPort: intstr.FromInt32(port), Protocol: corev1.ProtocolTCP}}
	})
}

// addFinalizer adds the finalizer.
func (o *operator) addFinalizer(ctx context.Context, obj client.Object) error {
	if !controllerutil.AddFinalizer(obj, finalizer) {
		return nil
	}
	if err := o.Update(ctx, obj); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	return nil
}

// removeFinalizer removes the finalizer.
func (o *operator) removeFinalizer(ctx context.Context, obj client.Object) error {
	controllerutil.RemoveFinalizer(obj, finalizer)
	if err := o.Update(ctx, obj); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}

// updateStatus sets the observed generation and the condition of obj, and stores its status if it differs from before.
func (o *operator) updateStatus(ctx context.Context, before client.Object, obj object, ready metav1.Condition) error {
	status := obj.CommonStatus()
	status.ObservedGeneration = obj.GetGeneration()
	ready.Type = "Ready"
	ready.ObservedGeneration = obj.GetGeneration()
	meta.SetStatusCondition(&status.Conditions, ready)
	if equality.Semantic.DeepEqual(before, obj) {
		return nil
	}
	if err := o.Status().Update(ctx, obj); err != nil {
		return fmt.Errorf("storing the status: %w", err)
	}
	return nil
}

// readyCondition returns the condition of an object with a completely applied spec.
func readyCondition() metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: "Done", Message: "everything is as the spec says"}
}

// childMeta returns the metadata of a child.
func childMeta(owner client.Object, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: owner.GetNamespace(), Name: name}
}

// setLabel sets one label and keeps the others.
func setLabel(obj client.Object, key, value string) {
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	obj.SetLabels(labels)
}
