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

// releasable reports whether the child has our finalizer for no reason: it is counted, or it is tracked no longer.
func (s *step) releasable(finalizer string) bool {
	return !s.hold && controllerutil.ContainsFinalizer(s.live, finalizer)
}

// unguarded reports whether a child that is there lacks the finalizer that it should have.
func (s *step) unguarded(finalizer string) bool {
	return s.hold && s.live != nil && !s.terminating && !controllerutil.ContainsFinalizer(s.live, finalizer)
}

// letGo releases a child that is not to be held any more. It sends the finalizer's end alone: to apply the child again
// could be refused, because admission may have altered it, when it was created, in a field that cannot change.
func (e *engine[T]) letGo(ctx context.Context, p *Pass[T], s *step, intent *apply.Intent) (bool, error) {
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
	s.live, s.stored = released, released
	return true, nil
}

// guardChild gives a child the finalizer that somebody removed, or that a former version of the operator did not ask for.
// It sends nothing else, for the reason given for letGo.
func (e *engine[T]) guardChild(ctx context.Context, p *Pass[T], s *step, intent *apply.Intent) (bool, error) {
	if err := e.contend(ctx, p, s, intent); err != nil {
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
	e.stored(p, s, s.live.GetResourceVersion(), intent, o)
	s.live = o
	return true, nil
}

// release removes our finalizer from a child and returns the server's answer, nil if the child is gone already. Without a
// parent that goes on nobody would ask for the answer again.
func (e *engine[T]) release(
	ctx context.Context, parent types.UID, id childID, live client.Object,
) (client.Object, error) {
	o := object.Copy(live)
	wrote, err := finalizer.Remove(ctx, e.client, o, e.op.finalizerName())
	if err != nil {
		return nil, fmt.Errorf("releasing %s: %w", id, err)
	}
	if !wrote {
		return nil, nil //nolint:nilnil // that nothing is there is no error.
	}
	if parent != "" {
		e.view.wrote(id.gvk, parent, o)
	}
	return o, nil
}

// releaseFormer lets go of tracked children whose parent no longer exists: nobody will ever count them.
func (e *engine[T]) releaseFormer(ctx context.Context, former map[childID]observed) error {
	for id, child := range former {
		if child.terminating && controllerutil.ContainsFinalizer(child.object, e.op.finalizerName()) {
			if _, err := e.release(ctx, "", id, child.object); err != nil {
				return err
			}
		}
	}
	return nil
}

// disown hands over the children that are to outlive the object that is going.
func (e *engine[T]) disown(ctx context.Context, p *Pass[T]) error {
	for id, child := range p.seen.children {
		if !slices.Contains(p.keeps, id.gvk) {
			continue
		}
		if err := e.handOver(ctx, p.Object.GetUID(), id, child); err != nil {
			return err
		}
	}
	return nil
}

// handOver removes what makes a child ours, so that nobody collects it, and with it our finalizer, which nobody would remove
// later.
func (e *engine[T]) handOver(ctx context.Context, parent types.UID, id childID, child observed) error {
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
