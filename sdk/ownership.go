package sdk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// This file has the ownership of children. A cross-namespace child is in another namespace than its parent, or
// cluster-scoped with a namespaced parent, so that an owner reference is not possible. It has the owner label, and a
// finalizer of the parent ensures its deletion.

// parent is the object of the operator's kind that owns a child.
type parent struct {
	key            types.NamespacedName
	uid            types.UID // "" if it belongs to none
	crossNamespace bool
	retained       bool // see Retain
}

// parentOf returns the parent of an object. The owner label alone is no proof, because it is copied with an object: the
// operator must have applied the object, too.
func (k *kinds) parentOf(o metav1.Object) parent {
	controller := metav1.GetControllerOf(o)
	if k.isPrimary(controller) {
		p := parent{key: types.NamespacedName{Name: controller.Name}, uid: controller.UID}
		if k.namespaced(k.primary) {
			p.key.Namespace = o.GetNamespace()
		}
		return p
	}
	namespace, name, ok := strings.Cut(o.GetAnnotations()[apply.OwnerAnnotation], "/")
	if controller != nil || !ok || apply.OwnedFields(o, k.operator).String() == "" {
		return parent{}
	}
	uid := types.UID(o.GetLabels()[apply.OwnerUIDLabel])
	retained := namespace == "" || namespace == o.GetNamespace() // an owner reference would be possible
	key := types.NamespacedName{Namespace: namespace, Name: name}
	return parent{key: key, uid: uid, crossNamespace: !retained, retained: retained}
}

// parentRequests returns the request for the parent of a child. It returns none for a parent in an unwatched namespace:
// another instance of the operator reconciles it, and the child is cached only because it is cluster-scoped or in a shared
// namespace.
func (v *readCache) parentRequests(_ context.Context, o client.Object) []reconcile.Request {
	if p := v.parentOf(o); p.uid != "" && v.watches(p.key.Namespace) {
		return []reconcile.Request{{NamespacedName: p.key}}
	}
	return nil
}

// instanceOf returns the key of the object that an observed object belongs to.
func (k *kinds) instanceOf(o client.Object) (types.NamespacedName, bool) {
	key := types.NamespacedName{Name: o.GetLabels()[InstanceLabel]}
	if k.namespaced(k.primary) {
		key.Namespace = o.GetNamespace()
	}
	return key, key.Name != ""
}

func (v *readCache) instanceRequests(_ context.Context, o client.Object) []reconcile.Request {
	if key, ok := v.instanceOf(o); ok && v.watches(key.Namespace) {
		return []reconcile.Request{{NamespacedName: key}}
	}
	return nil
}

// hasCrossNamespace reports whether a cross-namespace child exists or is planned.
func (r *passRecord) hasCrossNamespace() bool {
	for _, s := range r.plan {
		if s.crossNamespace {
			return true
		}
	}
	for _, child := range r.snapshot.children {
		if child.crossNamespace {
			return true
		}
	}
	return false
}

// deleteCrossNamespace deletes the cross-namespace children of an object that is being deleted, and waits for their
// deletion. Children that the clean-up applies come last and are not waited for, because the next reconcile would apply them
// again.
func (e *engine[T]) deleteCrossNamespace(ctx context.Context, p *Pass[T]) (wrote bool, err error) {
	var remaining []string
	for _, id := range p.snapshot.unplanned(p.plan) {
		child := p.snapshot.children[id]
		if !child.crossNamespace || slices.Contains(p.orphanKinds, id.gvk) {
			continue
		}
		remaining = append(remaining, fmt.Sprintf("%s %s", id.gvk.Kind, strings.TrimPrefix(id.key.String(), "/")))
		if !child.terminating && !p.budget.exhausted() {
			if _, err := e.delete(ctx, child.object, metav1.DeletePropagationBackground); err != nil {
				return wrote, err
			}
			wrote = p.budget.count(true)
		}
	}
	if len(remaining) > 0 {
		return wrote, Wait("CleaningUp", "still being deleted: %s", joinMessages(remaining))
	}
	for _, s := range p.plan {
		if s.crossNamespace && s.stored != nil && !slices.Contains(p.orphanKinds, s.gvk) {
			if _, err := e.delete(ctx, s.stored, metav1.DeletePropagationBackground); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// collectPredecessors performs the garbage collection of cross-namespace children of a deleted object, and removes tracking
// finalizers that no status will record any more. Like the garbage collector it first reads from the API server whether the
// owner exists: the informer of the owner may be behind that of the children, for example on a new leader.
func (e *engine[T]) collectPredecessors(
	ctx context.Context, key types.NamespacedName, predecessors map[childID]observedChild,
) error {
	finalizer := e.op.finalizerName()
	maps.DeleteFunc(predecessors, func(_ childID, child observedChild) bool {
		tracked := child.terminating && controllerutil.ContainsFinalizer(child.object, finalizer)
		return !tracked && (!child.crossNamespace || child.terminating)
	})
	if len(predecessors) == 0 {
		return nil
	}
	current, err := e.currentUID(ctx, key)
	if err != nil {
		return err
	}
	maps.DeleteFunc(predecessors, func(_ childID, child observedChild) bool {
		return e.cache.parentOf(child.object).uid == current
	})
	for id, child := range predecessors {
		if child.terminating {
			continue
		}
		// It may have been orphaned meanwhile, so the preconditions limit the deletion to the version that was read.
		uid, version := child.object.GetUID(), child.object.GetResourceVersion()
		err := e.client.Delete(ctx, child.object, client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{UID: &uid, ResourceVersion: &version})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("collecting %s: %w", id, err)
		}
	}
	return e.releasePredecessors(ctx, predecessors)
}

// currentUID reads the UID of the object of the operator's kind and that name from the API server, "" if it does not exist.
func (e *engine[T]) currentUID(ctx context.Context, key types.NamespacedName) (types.UID, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(e.cache.primary.GroupVersion().WithKind(e.cache.primary.Kind + "List"))
	name := client.MatchingFields{metav1.ObjectNameField: key.Name} // a get permission is not needed
	if err := e.client.List(ctx, list, client.InNamespace(key.Namespace), name); err != nil {
		return "", fmt.Errorf("asking for %s %s: %w", e.cache.primary.Kind, key, err)
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	return list.Items[0].UID, nil
}
