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

// adoptable reports whether a conflicting object may be adopted.
func (s *plannedChild) adoptable(o client.Object) bool {
	return s.mayAdopt != nil && metav1.GetControllerOf(o) == nil && o.GetDeletionTimestamp().IsZero() && s.mayAdopt(o)
}

// adopt takes over an object without a controller, in exactly the version that was checked. A rejection is only reported:
// the object is not ours yet, so nothing else may be done to it.
func (e *engine[T]) adopt(
	ctx context.Context, p *Pass[T], s *plannedChild, intent *apply.Intent, live client.Object,
) (bool, error) {
	if err := e.confirmNotDeleted(ctx, p); err != nil {
		return false, err
	}
	if s.createOnly {
		return e.setOwnership(ctx, p, s, live)
	}
	stored := e.cache.newResponse(s)
	if err := e.owner.Update(ctx, e.client, intent, live, stored); err != nil {
		return false, e.rejected(p, s, intent, err)
	}
	e.recordStored(p, s, "", intent, stored)
	return true, nil
}

// confirmNotDeleted reads from the API server whether the object of the pass exists and is not being deleted, because an
// event may be delayed. On orphan deletion the parent would otherwise adopt its children again, and garbage collection would
// delete them with it. Controllers of Kubernetes read the parent before an adoption, too.
func (e *engine[T]) confirmNotDeleted(ctx context.Context, p *Pass[T]) error {
	list := &metav1.PartialObjectMetadataList{} // the list permission is enough, which every operator has
	list.SetGroupVersionKind(e.cache.primary.GroupVersion().WithKind(e.cache.primary.Kind + "List"))
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

// setOwnership makes an object a child, or changes the form of its ownership, without changing its content.
func (e *engine[T]) setOwnership(ctx context.Context, p *Pass[T], s *plannedChild, live client.Object) (bool, error) {
	bare := object.Empty(s.desired)
	bare.SetNamespace(s.key.Namespace)
	bare.SetName(s.key.Name)
	ownership := &plannedChild{desired: bare, hold: s.hold, crossNamespace: s.crossNamespace, retain: s.retain}
	intent, err := e.cache.intent(ctx, p.Object, ownership)
	if err != nil {
		return false, err
	}
	stored := e.cache.newResponse(s)
	if err := e.owner.SetOwnership(ctx, e.client, intent, live, stored); err != nil {
		return false, e.rejected(p, s, intent, err)
	}
	e.recordStored(p, s, "", intent, stored)
	return true, nil
}

// conflict converts an ownership error into a problem with the operator's reason for it.
func (s *plannedChild) conflict(err error) error {
	if _, ok := errors.AsType[*apply.OwnershipError](err); !ok {
		return err
	}
	return &problem{class: classConflict, reason: cmp.Or(s.conflictReason, "ResourceConflict"), message: err.Error()}
}
