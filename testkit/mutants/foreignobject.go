package mutants

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator that changes or deletes an object of another client under the name of its child.
const (
	adopts        bug = "adopts"
	overwritesOld bug = "overwrites"
	deletesByName bug = "deletes-by-name"
)

func foreignObjectMutants() class {
	return class{
		name: "foreign-object", setup: setupBuckets, account: constantAccount("bucket"),
		flaws: []flaw{
			{adopts, "A ConfigMap of another client is adopted and gets the content of the Bucket."},
			{overwritesOld, "After its first success the operator takes any ConfigMap of the name for its own, and updates it."},
			{deletesByName, "The cleanup deletes the ConfigMap by its name, even if another client has created it."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) { k.Apply(newBucket("photos", "a")) }},
			{"change", func(k *testkit.K) { k.Apply(newBucket("photos", "b")) }},
			{"create another", func(k *testkit.K) { k.Apply(newBucket("music", "a")) }},
			{"delete", func(k *testkit.K) { k.Delete(newBucket("photos", "")) }},
		},
	}
}

func newBucket(name, content string) *v1.Bucket {
	return &v1.Bucket{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.BucketSpec{Content: content}}
}

func setupBuckets(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &buckets{newOperator(mgr, b)}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Bucket{}).
			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(sameName)).
			Complete(newReconciler(r.reconcile))
	}
}

// sameName maps an object to the custom resource of the same name.
func sameName(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(obj)}}
}

type buckets struct{ operator }

func (r *buckets) reconcile(ctx context.Context, req reconcile.Request) error {
	b := &v1.Bucket{}
	if err := r.Get(ctx, req.NamespacedName, b); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !b.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, b)
	}
	if err := r.addFinalizer(ctx, b); err != nil {
		return err
	}
	before := b.DeepCopy()
	cm := &corev1.ConfigMap{ObjectMeta: childMeta(b, b.Name)}
	err := r.Get(ctx, client.ObjectKeyFromObject(cm), cm)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the content: %w", err)
	}
	if err == nil && !r.isOurs(b, cm) {
		return r.updateStatus(ctx, before, b, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: "NameTaken",
			Message: fmt.Sprintf("another client has created ConfigMap %s: delete or rename it", cm.Name),
		})
	}
	if err := r.store(ctx, b); err != nil {
		return err
	}
	return r.updateStatus(ctx, before, b, readyCondition())
}

// store creates or updates the ConfigMap.
func (r *buckets) store(ctx context.Context, b *v1.Bucket) error {
	cm := &corev1.ConfigMap{ObjectMeta: childMeta(b, b.Name)}
	data := map[string]string{"content": b.Spec.Content}
	if r.bug == overwritesOld || r.bug == adopts {
		return r.applyUnowned(ctx, b, cm, func() error {
			cm.Data = data
			if cm.ResourceVersion != "" && r.bug == overwritesOld {
				return nil // the owner was set at the creation
			}
			return controllerutil.SetControllerReference(b, cm, r.Scheme(), controllerutil.WithBlockOwnerDeletion(false))
		})
	}
	return r.apply(ctx, b, cm, func() { cm.Data = data })
}

// isOurs reports whether the operator may update an existing ConfigMap.
func (r *buckets) isOurs(b *v1.Bucket, cm *corev1.ConfigMap) bool {
	switch {
	case r.bug == adopts, r.bug == overwritesOld && meta.IsStatusConditionTrue(b.Status.Conditions, "Ready"):
		return true
	default:
		return metav1.IsControlledBy(cm, b)
	}
}

// finalize deletes the ConfigMap.
func (r *buckets) finalize(ctx context.Context, b *v1.Bucket) error {
	if !controllerutil.ContainsFinalizer(b, finalizer) {
		return nil
	}
	cm := &corev1.ConfigMap{ObjectMeta: childMeta(b, b.Name)}
	err := r.apiReader.Get(ctx, client.ObjectKeyFromObject(cm), cm)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading the content: %w", err)
	case r.bug == deletesByName || metav1.IsControlledBy(cm, b):
		if err := r.delete(ctx, cm); err != nil {
			return err
		}
	}
	return r.removeFinalizer(ctx, b)
}
