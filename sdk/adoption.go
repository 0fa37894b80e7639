package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// adoptable reports whether an object that is in the way may be taken over.
func (s *step) adoptable(o client.Object) bool {
	return s.adopt != nil && metav1.GetControllerOf(o) == nil && o.GetDeletionTimestamp().IsZero() && s.adopt(o)
}

// adopt takes over an object that nobody controls, in the very version that was judged. A refusal is only told: until it is
// ours, nothing else may be done to it.
func (e *engine[T]) adopt(
	ctx context.Context, p *Pass[T], s *step, intent *apply.Intent, live client.Object,
) (bool, error) {
	if err := e.confirm(ctx, p); err != nil {
		return false, err
	}
	if s.createOnly {
		return e.sign(ctx, p, s, live)
	}
	stored := e.view.answer(s)
	if err := e.owner.Update(ctx, e.client, intent, live, stored); err != nil {
		return false, e.rejected(p, s, intent, err)
	}
	e.stored(p, s, "", intent, stored)
	return true, nil
}

// confirm asks the API server whether the object of the pass is still there, and not being deleted, because an event may be
// late. Who leaves its children to nobody as it is deleted would take them back otherwise, and garbage collection would end
// them with it. Kubernetes's own controllers ask before they adopt, too.
func (e *engine[T]) confirm(ctx context.Context, p *Pass[T]) error {
	list := &metav1.PartialObjectMetadataList{} // for which the right to list will do, which every operator has
	list.SetGroupVersionKind(e.view.primary.GroupVersion().WithKind(e.view.primary.Kind + "List"))
	key := client.ObjectKeyFromObject(p.Object)
	err := e.client.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name})
	if err != nil {
		return fmt.Errorf("looking whether %s is there: %w", key, err)
	}
	same := func(o metav1.PartialObjectMetadata) bool {
		return o.UID == p.Object.GetUID() && o.DeletionTimestamp.IsZero() == p.Object.GetDeletionTimestamp().IsZero()
	}
	if !slices.ContainsFunc(list.Items, same) {
		return fmt.Errorf("%s is gone or on its way: %w", key, apply.ErrStale)
	}
	return nil
}

// sign makes an object a child, or one that outlives its parent or no longer does, whose content is not changed.
func (e *engine[T]) sign(ctx context.Context, p *Pass[T], s *step, live client.Object) (bool, error) {
	bare := object.Empty(s.desired)
	bare.SetNamespace(s.key.Namespace)
	bare.SetName(s.key.Name)
	intent, err := e.view.intent(ctx, p.Object, &step{desired: bare, hold: s.hold, remote: s.remote, kept: s.kept})
	if err != nil {
		return false, err
	}
	stored := e.view.answer(s)
	if err := e.owner.SetOwnership(ctx, e.client, intent, live, stored); err != nil {
		return false, e.rejected(p, s, intent, err)
	}
	e.stored(p, s, "", intent, stored)
	return true, nil
}

// conflict tells of an object in our way by the reason that the operator has for it.
func (s *step) conflict(err error) error {
	if _, ok := errors.AsType[*apply.OwnershipError](err); !ok {
		return err
	}
	return &problem{class: classConflict, reason: cmp.Or(s.conflictReason, "ResourceConflict"), message: err.Error()}
}
