package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// handlers feed the graph and queue what a change concerns.
func (j *Collector) handlers(k kind) cache.ResourceEventHandler {
	changed := func(obj any) {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			j.changed(newNode(k, m))
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, obj any) { changed(obj) },
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
				j.removed(m.UID)
			}
		},
	}
}

func (j *Collector) changed(n *node) {
	before := j.graph.put(n)
	if n.deleting || len(n.owners) > 0 {
		j.objects.Add(n.uid)
	}
	if before != nil {
		j.wakeOwners(before)
	}
	j.namespaceChanged(n)
}

func (j *Collector) removed(uid types.UID) {
	n := j.graph.remove(uid)
	if n == nil {
		return
	}
	for _, dependent := range j.graph.dependentsOf(uid) {
		j.objects.Add(dependent.uid)
	}
	j.wakeOwners(n)
	j.namespaceChanged(n)
}

// wakeOwners looks again at owners that wait for their dependents: one may be gone or no longer in the way.
func (j *Collector) wakeOwners(n *node) {
	for _, ref := range n.owners {
		if owner := j.graph.get(ref.UID); owner != nil && owner.waitsForDependents() {
			j.objects.Add(owner.uid)
		}
	}
}

// processObject does what is due for one object. An error means that it has to be looked at again.
func (j *Collector) processObject(ctx context.Context, uid types.UID) error {
	n := j.graph.get(uid)
	switch {
	case n == nil:
		return nil
	case n.deleting && n.has(metav1.FinalizerOrphanDependents):
		return j.orphanDependents(ctx, n)
	case n.waitsForDependents():
		return j.deleteDependents(ctx, n)
	case n.deleting || len(n.owners) == 0 || j.allSolid(n):
		return nil
	default:
		return j.collect(ctx, n)
	}
}

// orphanDependents takes the owner reference off all dependents, then lets the owner go. Dependents that no event has
// told of yet would be taken for garbage afterwards, so the server is asked for them.
func (j *Collector) orphanDependents(ctx context.Context, n *node) error {
	dependents, err := j.listDependents(ctx, n)
	if err != nil {
		return err
	}
	for _, d := range dependents {
		if err := j.dropOwners(ctx, d, n.uid); err != nil {
			return err
		}
	}
	return j.dropFinalizer(ctx, n, metav1.FinalizerOrphanDependents)
}

// deleteDependents lets the owner go when nothing blocks it any more, and until then sees to its dependents.
func (j *Collector) deleteDependents(ctx context.Context, n *node) error {
	blocked := false
	for _, d := range j.graph.dependentsOf(n.uid) {
		j.objects.Add(d.uid)
		blocked = blocked || d.blocks(n.uid)
	}
	if blocked {
		return nil
	}
	return j.dropFinalizer(ctx, n, metav1.FinalizerDeleteDependents)
}

// allSolid says, without asking the server, whether every owner is there and stays. Should that be out of date, the
// owner's own event is on its way.
func (j *Collector) allSolid(n *node) bool {
	return !slices.ContainsFunc(n.owners, func(ref metav1.OwnerReference) bool {
		owner := j.graph.get(ref.UID)
		return owner == nil || !owner.is(ref, n.namespace) || owner.waitsForDependents()
	})
}

// owners sorts an object's references by what became of the owner.
type owners struct {
	solid   int
	unseen  bool // no event has told of one of the solid ones yet
	absent  []types.UID
	waiting []types.UID // being deleted in the foreground
}

// errUnseen asks for another look at an object. Its owner is on the server, but it may go before the watch of its kind
// begins, as that of a custom resource right after it was installed does, and no event would tell of its end.
var errUnseen = errors.New("no event has told of the owner yet")

// known returns nil if an event will tell of the end of every solid owner.
func (o owners) known() error {
	if o.unseen {
		return errUnseen
	}
	return nil
}

// collect decides on an object by the state of its owners on the server.
func (j *Collector) collect(ctx context.Context, n *node) error {
	live, err := j.get(ctx, n)
	if apierrors.IsNotFound(err) || err == nil && (live.UID != n.uid || live.DeletionTimestamp != nil) {
		return nil // the event is on its way
	}
	if err != nil {
		return err
	}
	o, err := j.classify(ctx, live)
	switch {
	case err != nil:
		return ignoreHopeless(err)
	case len(o.absent)+len(o.waiting) == 0:
		return o.known()
	case o.solid > 0:
		return j.dropOwners(ctx, n, slices.Concat(o.absent, o.waiting)...)
	case len(o.waiting) > 0 && len(j.graph.dependentsOf(n.uid)) > 0:
		if err := j.breakCycle(ctx, n, live); err != nil {
			return err
		}
		return j.delete(ctx, n, live, metav1.DeletePropagationForeground)
	case slices.Contains(live.Finalizers, metav1.FinalizerOrphanDependents):
		return j.delete(ctx, n, live, metav1.DeletePropagationOrphan)
	case slices.Contains(live.Finalizers, metav1.FinalizerDeleteDependents):
		return j.delete(ctx, n, live, metav1.DeletePropagationForeground)
	default:
		return j.delete(ctx, n, live, metav1.DeletePropagationBackground)
	}
}

func (j *Collector) classify(ctx context.Context, live *metav1.PartialObjectMetadata) (owners, error) {
	var o owners
	for _, ref := range live.OwnerReferences {
		owner, err := j.findOwner(ctx, ref, live.Namespace)
		switch {
		case err != nil:
			return owners{}, err
		case owner == nil:
			o.absent = append(o.absent, ref.UID)
		case owner.DeletionTimestamp != nil && slices.Contains(owner.Finalizers, metav1.FinalizerDeleteDependents):
			o.waiting = append(o.waiting, ref.UID)
		default:
			o.solid++
			o.unseen = o.unseen || j.graph.get(ref.UID) == nil
		}
	}
	return o, nil
}

// breakCycle unblocks the owners of an object that is about to be deleted in the foreground while a dependent of it
// already is: two objects that own each other would wait for ever.
func (j *Collector) breakCycle(ctx context.Context, n *node, live *metav1.PartialObjectMetadata) error {
	waits := func(d *node) bool { return d.waitsForDependents() }
	if !slices.ContainsFunc(j.graph.dependentsOf(n.uid), waits) {
		return nil
	}
	refs := slices.Clone(live.OwnerReferences)
	for i := range refs {
		refs[i].BlockOwnerDeletion = new(false)
	}
	updated, err := j.patch(ctx, n, metav1.ObjectMeta{
		UID: live.UID, ResourceVersion: live.ResourceVersion, OwnerReferences: refs,
	})
	if err != nil {
		return fmt.Errorf("unblocking the owners of %s: %w", n, err)
	}
	live.ResourceVersion = updated.ResourceVersion
	return nil
}
