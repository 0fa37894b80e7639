package reconciler

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
)

// collectPredecessors performs the garbage collection of cross-namespace children of a deleted object, and removes tracking
// finalizers that no status will record any more. Like the garbage collector it first reads from the API server whether the
// owner exists: the informer of the owner may be behind that of the children, for example on a new leader.
func (e *Reconciler) collectPredecessors(
	ctx context.Context, key types.NamespacedName, predecessors map[object.ID]observed.Child,
) error {
	finalizer := e.op.FinalizerName
	maps.DeleteFunc(predecessors, func(_ object.ID, child observed.Child) bool {
		tracked := child.Terminating && controllerutil.ContainsFinalizer(child.Object, finalizer)
		return !tracked && (!child.CrossNamespace || child.Terminating)
	})
	if len(predecessors) == 0 {
		return nil
	}
	current, err := e.currentUID(ctx, key)
	if err != nil {
		return err
	}
	maps.DeleteFunc(predecessors, func(_ object.ID, child observed.Child) bool {
		return e.cache.ParentOf(child.Object).UID == current
	})
	for id, child := range predecessors {
		if child.Terminating {
			continue
		}
		if e.op.Orphan != nil && e.op.Orphan(object.Copy(child.Object)) {
			if err := e.removeOwnership(ctx, e.cache.ParentOf(child.Object).UID, id, child); err != nil {
				return err
			}
			continue
		}
		// It may have been orphaned meanwhile, so the preconditions limit the deletion to the version that was read.
		uid, version := child.Object.GetUID(), child.Object.GetResourceVersion()
		err := e.client.Delete(ctx, child.Object, client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{UID: &uid, ResourceVersion: &version})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("collecting %s: %w", id, err)
		}
	}
	return e.releasePredecessors(ctx, predecessors)
}

// currentUID reads the UID of the object of the operator's kind and that name from the API server, "" if it does not exist.
func (e *Reconciler) currentUID(ctx context.Context, key types.NamespacedName) (types.UID, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(e.cache.Primary.GroupVersion().WithKind(e.cache.Primary.Kind + "List"))
	name := client.MatchingFields{metav1.ObjectNameField: key.Name} // a get permission is not needed
	if err := e.client.List(ctx, list, client.InNamespace(key.Namespace), name); err != nil {
		return "", fmt.Errorf("asking for %s %s: %w", e.cache.Primary.Kind, key, err)
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	return list.Items[0].UID, nil
}

// releasePredecessors removes the tracking finalizers of children without a parent: no status will record them.
func (e *Reconciler) releasePredecessors(ctx context.Context, predecessors map[object.ID]observed.Child) error {
	for id, child := range predecessors {
		if child.Terminating && controllerutil.ContainsFinalizer(child.Object, e.op.FinalizerName) {
			if _, err := e.release(ctx, "", id, child.Object); err != nil {
				return err
			}
		}
	}
	return nil
}
