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

// finalizer keeps an object until what it left outside of itself has been cleaned up.
const finalizer = "mutants.homeostat.dev/cleanup"

// An operator is what all of them have in common.
type operator struct {
	client.Client               // reads from the informers' cache, which may be behind
	live          client.Reader // reads from the API server

	bug bug
}

func newOperator(mgr manager.Manager, b bug) operator {
	return operator{Client: mgr.GetClient(), live: mgr.GetAPIReader(), bug: b}
}

// object is a custom resource.
type object interface {
	client.Object
	CommonStatus() *v1.Status
}

// errBehind ends a pass that knows more than the cache does. The news that the cache waits for starts the next pass.
var errBehind = errors.New("the cache is behind")

// pass makes a reconciler. An error is a reason to try again.
func pass(f func(context.Context, reconcile.Request) error) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		err := f(ctx, req)
		if errors.Is(err, errBehind) {
			err = nil
		}
		return reconcile.Result{}, err
	})
}

// apply creates child, owned by owner, or changes what set sets.
func (o *operator) apply(ctx context.Context, owner, child client.Object, set func()) error {
	return o.put(ctx, owner, child, func() error {
		set()
		return controllerutil.SetControllerReference(owner, child, o.Scheme(), controllerutil.WithBlockOwnerDeletion(false))
	})
}

// put is apply for what has no owner.
func (o *operator) put(ctx context.Context, owner, child client.Object, set func() error) error {
	_, err := controllerutil.CreateOrUpdate(ctx, o, child, func() error {
		if child.GetResourceVersion() == "" {
			// The cache may still show an owner that has been deleted, and what is made for that one is garbage.
			if err := o.stillWanted(ctx, owner); err != nil {
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

// stillWanted asks the API server, and returns errBehind if owner has been deleted.
func (o *operator) stillWanted(ctx context.Context, owner client.Object) error {
	now := &metav1.PartialObjectMetadata{}
	gvk, err := o.GroupVersionKindFor(owner)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", owner, err)
	}
	now.SetGroupVersionKind(gvk)
	err = o.live.Get(ctx, client.ObjectKeyFromObject(owner), now)
	switch {
	case apierrors.IsNotFound(err):
		return errBehind
	case err != nil:
		return fmt.Errorf("looking for %s: %w", owner.GetName(), err)
	case now.UID != owner.GetUID() || !now.DeletionTimestamp.IsZero():
		return errBehind
	}
	return nil
}

// remove deletes the very object that was read, and not one that has taken its name since.
func (o *operator) remove(ctx context.Context, obj client.Object) error {
	err := o.Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %T %s: %w", obj, obj.GetName(), err)
	}
	return nil
}

// withdraw deletes a child of owner if it exists.
func (o *operator) withdraw(ctx context.Context, owner, child client.Object) error {
	err := o.Get(ctx, client.ObjectKeyFromObject(child), child)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading %T %s: %w", child, child.GetName(), err)
	case !metav1.IsControlledBy(child, owner):
		return nil
	}
	return o.remove(ctx, child)
}

// service applies a Service for the pods of an app of the same name as owner.
func (o *operator) service(ctx context.Context, owner client.Object, name string, port int32) error {
	s := &corev1.Service{ObjectMeta: named(owner, name)}
	return o.apply(ctx, owner, s, func() {
		s.Spec.Type = corev1.ServiceTypeClusterIP
		s.Spec.SessionAffinity = corev1.ServiceAffinityNone
		s.Spec.Selector = map[string]string{"app": owner.GetName()}
		s.Spec.Ports = []corev1.ServicePort{{Port: port, TargetPort: intstr.FromInt32(port), Protocol: corev1.ProtocolTCP}}
	})
}

// guard adds the finalizer.
func (o *operator) guard(ctx context.Context, obj client.Object) error {
	if !controllerutil.AddFinalizer(obj, finalizer) {
		return nil
	}
	if err := o.Update(ctx, obj); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	return nil
}

// release takes the finalizer off.
func (o *operator) release(ctx context.Context, obj client.Object) error {
	controllerutil.RemoveFinalizer(obj, finalizer)
	if err := o.Update(ctx, obj); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}

// report says that a generation of obj has been carried out, and stores its status if it is not that of before.
func (o *operator) report(ctx context.Context, before client.Object, obj object, ready metav1.Condition) error {
	status := obj.CommonStatus()
	status.ObservedGeneration = obj.GetGeneration()
	ready.Type, ready.ObservedGeneration = "Ready", obj.GetGeneration()
	meta.SetStatusCondition(&status.Conditions, ready)
	if equality.Semantic.DeepEqual(before, obj) {
		return nil
	}
	if err := o.Status().Update(ctx, obj); err != nil {
		return fmt.Errorf("storing the status: %w", err)
	}
	return nil
}

// done is the condition of an object whose spec has been carried out.
func done() metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: "Done", Message: "everything is as the spec says"}
}

// named is the metadata of a child.
func named(owner client.Object, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: owner.GetNamespace(), Name: name}
}

// label sets one label and keeps the others.
func label(obj client.Object, key, value string) {
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	obj.SetLabels(labels)
}
