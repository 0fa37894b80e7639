package sdk

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/finalizer"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// releasable reports whether the child has the tracking finalizer and no longer needs it.
func (s *plannedChild) releasable(finalizer string) bool {
	return !s.hold && controllerutil.ContainsFinalizer(s.live, finalizer)
}

// lacksFinalizer reports whether an existing child lacks its tracking finalizer.
func (s *plannedChild) lacksFinalizer(finalizer string) bool {
	return s.hold && s.live != nil && !s.terminating && !controllerutil.ContainsFinalizer(s.live, finalizer)
}

// releaseFinalizer removes the tracking finalizer from a child. It sends nothing else: an apply of the whole child could be
// rejected, because admission may have changed an immutable field when the child was created.
func (e *engine[T]) releaseFinalizer(ctx context.Context, p *Pass[T], s *plannedChild, intent *apply.Intent) (bool, error) {
	if !s.releasable(e.op.finalizerName()) {
		return false, nil
	}
	released, err := e.release(ctx, p.Object.GetUID(), s.id(), s.live)
	if err != nil || released == nil {
		return false, e.rejected(p, s, intent, err)
	}
	if !s.createOnly && !s.terminating {
		e.owner.MarkConverged(intent, released)
	}
	s.live = released
	s.stored = released
	return true, nil
}

// addChildFinalizer adds the tracking finalizer to a child if another client removed it, or if an earlier version of the
// operator did not set it. It sends nothing else, for the reason given for releaseFinalizer.
func (e *engine[T]) addChildFinalizer(ctx context.Context, p *Pass[T], s *plannedChild, intent *apply.Intent) (bool, error) {
	if err := e.checkContention(ctx, p, s, intent); err != nil {
		return false, err
	}
	o := object.Copy(s.live)
	_, err := finalizer.Add(ctx, e.client, o, e.op.finalizerName())
	switch {
	case apierrors.IsNotFound(err):
		return false, errors.Join(apply.ErrStale, err)
	case err != nil:
		return false, e.rejected(p, s, intent, fmt.Errorf("tracking %s: %w", s, err))
	}
	e.recordStored(p, s, s.live.GetResourceVersion(), intent, o)
	s.live = o
	return true, nil
}

// release removes the tracking finalizer from a child and returns the response, nil if the child does not exist any more.
// Without a parent the response is not recorded, because no later reconcile reads it.
func (e *engine[T]) release(
	ctx context.Context, parent types.UID, id childID, live client.Object,
) (client.Object, error) {
	o := object.Copy(live)
	wrote, err := finalizer.Remove(ctx, e.client, o, e.op.finalizerName())
	if err != nil {
		return nil, fmt.Errorf("releasing %s: %w", id, err)
	}
	if !wrote {
		return nil, nil //nolint:nilnil // a missing object is no error.
	}
	if parent != "" {
		e.cache.recordWrite(id.gvk, parent, o)
	}
	return o, nil
}

// releasePredecessors removes the tracking finalizers of children without a parent: no status will record them.
func (e *engine[T]) releasePredecessors(ctx context.Context, predecessors map[childID]observedChild) error {
	for id, child := range predecessors {
		if child.terminating && controllerutil.ContainsFinalizer(child.object, e.op.finalizerName()) {
			if _, err := e.release(ctx, "", id, child.object); err != nil {
				return err
			}
		}
	}
	return nil
}

// orphanChildren removes the ownership of the children that shall outlive an object that is being deleted.
func (e *engine[T]) orphanChildren(ctx context.Context, p *Pass[T]) error {
	for id, child := range p.snapshot.children {
		if !slices.Contains(p.orphanKinds, id.gvk) {
			continue
		}
		if err := e.removeOwnership(ctx, p.Object.GetUID(), id, child); err != nil {
			return err
		}
	}
	return nil
}

// removeOwnership removes the owner reference and the owner label from a child, so that it is not garbage collected, and the
// tracking finalizer, because no operator would remove it later.
func (e *engine[T]) removeOwnership(ctx context.Context, parent types.UID, id childID, child observedChild) error {
	o := object.Copy(child.object)
	o.SetOwnerReferences(slices.DeleteFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.UID == parent
	}))
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	delete(labels, apply.OwnerUIDLabel)
	delete(annotations, apply.OwnerAnnotation)
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	controllerutil.RemoveFinalizer(o, e.op.finalizerName())
	patch := client.MergeFromWithOptions(child.object, client.MergeFromWithOptimisticLock{})
	err := e.client.Patch(ctx, o, patch)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("handing over %s: %w", id, err)
	}
	return nil
}
