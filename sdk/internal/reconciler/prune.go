package reconciler

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
)

// prune deletes or orphans the children that are no longer in the plan, and removes tracking finalizers first. If some
// children could not be written, it skips their namespaces: a replacement of a pruned child may be among them.
func (e *Reconciler) prune(ctx context.Context, p *desired.Pass, failed bool) (wrote bool, err error) {
	skipped := map[string]bool{}
	for _, s := range p.Plan {
		if failed && !s.Executed {
			skipped[s.Key.Namespace] = true
		}
	}
	for _, id := range p.Unplanned() {
		if p.Budget.Exhausted() {
			return wrote, nil
		}
		if skipped[id.Key.Namespace] || p.Snapshot.Children[id].Retained {
			continue
		}
		remove := e.deleteChild
		if e.op.IsOrphan(p, id.GVK, p.Snapshot.Children[id].Object) {
			remove = e.orphanChild
		}
		did, err := remove(ctx, p, id, p.Snapshot.Children[id])
		wrote = p.Budget.Count(did) || wrote
		if err != nil {
			return wrote, err
		}
	}
	return wrote, nil
}

// deleteChild deletes one child.
func (e *Reconciler) deleteChild(
	ctx context.Context, p *desired.Pass, id object.ID, child observed.Child,
) (wrote bool, err error) {
	live := child.Object
	if controllerutil.ContainsFinalizer(live, e.op.FinalizerName) {
		released, err := e.release(ctx, p.Object.GetUID(), id, live)
		if err != nil {
			return false, err
		}
		wrote = released != nil
	}
	force := p.ForceDeletes[id] && !observed.IsForceDeleted(live) && !e.cache.IsForceDeleted(live.GetUID())
	if child.Terminating && !force {
		return wrote, nil
	}
	var opts []client.DeleteOption
	if force {
		opts = append(opts, client.GracePeriodSeconds(0))
	}
	deleted, err := e.delete(ctx, id, live, metav1.DeletePropagationBackground, opts...)
	if err == nil && force {
		e.cache.RecordForceDeletion(live.GetUID())
	}
	return wrote || deleted, err
}

// orphanChild removes the ownership of one child.
func (e *Reconciler) orphanChild(
	ctx context.Context, p *desired.Pass, id object.ID, child observed.Child,
) (wrote bool, err error) {
	if child.Terminating {
		return false, nil
	}
	if err := e.removeOwnership(ctx, p.Object.GetUID(), id, child); err != nil {
		return false, err
	}
	e.cache.RecordDeletion(child.Object.GetUID()) // it is no longer a child
	return true, nil
}

// delete deletes exactly this instance and reports whether it did. It is no error if the object does not exist.
func (e *Reconciler) delete(
	ctx context.Context, id object.ID, live client.Object, propagation metav1.DeletionPropagation, opts ...client.DeleteOption,
) (bool, error) {
	uid := live.GetUID()
	opts = append(opts, client.Preconditions{UID: &uid}, client.PropagationPolicy(propagation))
	err := e.client.Delete(ctx, live, opts...)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return false, fmt.Errorf("deleting %s: %w", id, err)
	}
	e.cache.RecordDeletion(uid)
	return err == nil, nil
}

// removeOwnership removes the owner reference and the owner label from a child, so that it is not garbage collected, and the
// tracking finalizer, because no operator would remove it later.
func (e *Reconciler) removeOwnership(ctx context.Context, parent types.UID, id object.ID, child observed.Child) error {
	o := object.Copy(child.Object)
	o.SetOwnerReferences(slices.DeleteFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.UID == parent
	}))
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	delete(labels, apply.OwnerUIDLabel)
	delete(annotations, apply.OwnerAnnotation)
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	controllerutil.RemoveFinalizer(o, e.op.FinalizerName)
	if e.op.Orphan != nil {
		e.op.Orphan(o)
	}
	patch := client.MergeFromWithOptions(child.Object, client.MergeFromWithOptimisticLock{})
	err := e.client.Patch(ctx, o, patch)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("handing over %s: %w", id, err)
	}
	return nil
}
