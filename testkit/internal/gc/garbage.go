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

// handlers update the graph and queue the affected objects.
func (c *Collector) handlers(k kind) cache.ResourceEventHandler {
	changed := func(obj any) {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			c.changed(newNode(k, m))
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
				c.removed(m.UID)
			}
		},
	}
}

func (c *Collector) changed(n *node) {
	before := c.graph.put(n)
	if n.deleting || len(n.owners) > 0 {
		c.objects.Add(n.uid)
	}
	if before != nil {
		c.wakeOwners(before)
	}
	c.namespaceChanged(n)
}

func (c *Collector) removed(uid types.UID) {
	n := c.graph.remove(uid)
	if n == nil {
		return
	}
	for _, dependent := range c.graph.dependentsOf(uid) {
		c.objects.Add(dependent.uid)
	}
	c.wakeOwners(n)
	c.namespaceChanged(n)
}

// wakeOwners queues owners that wait for their dependents: one of those may be gone or no longer blocking.
func (c *Collector) wakeOwners(n *node) {
	for _, ref := range n.owners {
		if owner := c.graph.get(ref.UID); owner != nil && owner.waitsForDependents() {
			c.objects.Add(owner.uid)
		}
	}
}

// processObject performs the pending action for one object. An error requeues it.
func (c *Collector) processObject(ctx context.Context, uid types.UID) error {
	n := c.graph.get(uid)
	switch {
	case n == nil:
		return nil
	case n.deleting && n.has(metav1.FinalizerOrphanDependents):
		return c.orphanDependents(ctx, n)
	case n.waitsForDependents():
		return c.deleteDependents(ctx, n)
	case n.deleting || len(n.owners) == 0 || c.allOwnersExist(n):
		return nil
	default:
		return c.collect(ctx, n)
	}
}

// orphanDependents removes the owner reference from all dependents, then its finalizer from the owner. It lists the
// dependents on the server: those without an event so far would be collected as garbage afterwards.
func (c *Collector) orphanDependents(ctx context.Context, n *node) error {
	dependents, err := c.listDependents(ctx, n)
	if err != nil {
		return err
	}
	for _, d := range dependents {
		if err := c.dropOwners(ctx, d, n.uid); err != nil {
			return err
		}
	}
	return c.dropFinalizer(ctx, n, metav1.FinalizerOrphanDependents)
}

// errDependentNotObserved requeues an owner: the event of a dependent that blocks its deletion is pending.
var errDependentNotObserved = errors.New("no event has told of a dependent yet")

// deleteDependents removes the finalizer of the owner when no dependent blocks it, and queues the dependents. It lists
// the dependents on the server before: each kind has a watch of its own, so the event of a dependent may arrive after
// the deletion of its owner.
func (c *Collector) deleteDependents(ctx context.Context, n *node) error {
	blocks := func(d *node) bool { return d.blocks(n.uid) }
	observed := c.graph.dependentsOf(n.uid)
	for _, d := range observed {
		c.objects.Add(d.uid)
	}
	if slices.ContainsFunc(observed, blocks) {
		return nil
	}
	stored, err := c.listDependents(ctx, n)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(stored, blocks) {
		return errDependentNotObserved
	}
	return c.dropFinalizer(ctx, n, metav1.FinalizerDeleteDependents)
}

// allOwnersExist reports whether the graph contains every owner and none is being deleted. If the graph is stale, an
// event of the owner will follow.
func (c *Collector) allOwnersExist(n *node) bool {
	return !slices.ContainsFunc(n.owners, func(ref metav1.OwnerReference) bool {
		owner := c.graph.get(ref.UID)
		return owner == nil || !owner.matches(ref, n.namespace) || owner.waitsForDependents()
	})
}

// owners classifies an object's references by the state of the owner.
type owners struct {
	existing    int
	notObserved bool // one of the existing ones has had no event yet
	absent      []types.UID
	waiting     []types.UID // being deleted in the foreground
}

// errOwnerNotObserved requeues an object. Its owner exists on the server, but may be deleted before the watch of its kind
// starts, for example after a new custom resource definition. Then no event would report the deletion.
var errOwnerNotObserved = errors.New("no event has told of the owner yet")

// checkObserved returns nil if the graph will get an event for the deletion of every existing owner.
func (o owners) checkObserved() error {
	if o.notObserved {
		return errOwnerNotObserved
	}
	return nil
}

// collect decides on an object by the state of its owners on the server.
func (c *Collector) collect(ctx context.Context, n *node) error {
	live, err := c.get(ctx, n)
	if apierrors.IsNotFound(err) || err == nil && (live.UID != n.uid || live.DeletionTimestamp != nil) {
		return nil // the event is pending
	}
	if err != nil {
		return err
	}
	o, err := c.classify(ctx, live)
	switch {
	case err != nil:
		return ignorePermanent(err)
	case len(o.absent)+len(o.waiting) == 0:
		return o.checkObserved()
	case o.existing > 0:
		return c.dropOwners(ctx, n, slices.Concat(o.absent, o.waiting)...)
	case len(o.waiting) > 0 && len(c.graph.dependentsOf(n.uid)) > 0:
		if err := c.breakCycle(ctx, n, live); err != nil {
			return err
		}
		return c.delete(ctx, n, live, metav1.DeletePropagationForeground)
	case slices.Contains(live.Finalizers, metav1.FinalizerOrphanDependents):
		return c.delete(ctx, n, live, metav1.DeletePropagationOrphan)
	case slices.Contains(live.Finalizers, metav1.FinalizerDeleteDependents):
		return c.delete(ctx, n, live, metav1.DeletePropagationForeground)
	default:
		return c.delete(ctx, n, live, metav1.DeletePropagationBackground)
	}
}

func (c *Collector) classify(ctx context.Context, live *metav1.PartialObjectMetadata) (owners, error) {
	var o owners
	for _, ref := range live.OwnerReferences {
		owner, err := c.findOwner(ctx, ref, live.Namespace)
		switch {
		case err != nil:
			return owners{}, err
		case owner == nil:
			o.absent = append(o.absent, ref.UID)
		case owner.DeletionTimestamp != nil && slices.Contains(owner.Finalizers, metav1.FinalizerDeleteDependents):
			o.waiting = append(o.waiting, ref.UID)
		default:
			o.existing++
			o.notObserved = o.notObserved || c.graph.get(ref.UID) == nil
		}
	}
	return o, nil
}

// breakCycle unblocks the owners of an object before its foreground deletion, if a dependent is in foreground deletion
// already: two objects that own each other would wait forever.
func (c *Collector) breakCycle(ctx context.Context, n *node, live *metav1.PartialObjectMetadata) error {
	waits := func(d *node) bool { return d.waitsForDependents() }
	if !slices.ContainsFunc(c.graph.dependentsOf(n.uid), waits) {
		return nil
	}
	refs := slices.Clone(live.OwnerReferences)
	for i := range refs {
		refs[i].BlockOwnerDeletion = new(false)
	}
	updated, err := c.patch(ctx, n, metav1.ObjectMeta{
		UID: live.UID, ResourceVersion: live.ResourceVersion, OwnerReferences: refs,
	})
	if err != nil {
		return fmt.Errorf("unblocking the owners of %s: %w", n, err)
	}
	live.ResourceVersion = updated.ResourceVersion
	return nil
}
