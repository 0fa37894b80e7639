package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// adopt takes over an object without a controller, in exactly the version that was checked. A rejection is only reported:
// the object is not ours yet, so nothing else may be done to it.
func (e *Reconciler) adopt(
	ctx context.Context, p *desired.Pass, s *desired.Child, intent *apply.Intent, live client.Object,
) (bool, error) {
	if err := e.confirmNotDeleted(ctx, p); err != nil {
		return false, err
	}
	if s.CreateOnly {
		return e.setOwnership(ctx, p, s, live)
	}
	if s.OnAdopt != nil {
		s.OnAdopt(object.Copy(live), s.Desired)
		var err error
		if intent, err = s.Intent(ctx, e.cache.Kinds, p.Object); err != nil {
			return false, err
		}
	}
	stored := e.cache.NewResponse(s.GVK, s.Desired)
	if err := e.owner.Update(ctx, e.client, intent, live, stored); err != nil {
		return false, e.rejected(p, s, intent, err)
	}
	e.recordStored(p, s, "", intent, stored)
	return true, nil
}

// confirmNotDeleted reads from the API server whether the object of the pass exists and is not being deleted, because an
// event may be delayed. On orphan deletion the parent would otherwise adopt its children again, and garbage collection would
// delete them with it. Controllers of Kubernetes read the parent before an adoption, too.
func (e *Reconciler) confirmNotDeleted(ctx context.Context, p *desired.Pass) error {
	list := &metav1.PartialObjectMetadataList{} // the list permission is enough, which every operator has
	list.SetGroupVersionKind(e.cache.Primary.GroupVersion().WithKind(e.cache.Primary.Kind + "List"))
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
func (e *Reconciler) setOwnership(ctx context.Context, p *desired.Pass, s *desired.Child, live client.Object) (bool, error) {
	bare := object.Empty(s.Desired)
	bare.SetNamespace(s.Key.Namespace)
	bare.SetName(s.Key.Name)
	ownership := &desired.Child{Desired: bare, Hold: s.Hold, CrossNamespace: s.CrossNamespace, Retain: s.Retain}
	intent, err := ownership.Intent(ctx, e.cache.Kinds, p.Object)
	if err != nil {
		return false, err
	}
	stored := e.cache.NewResponse(s.GVK, s.Desired)
	if err := e.owner.SetOwnership(ctx, e.client, intent, live, stored); err != nil {
		return false, e.rejected(p, s, intent, err)
	}
	e.recordStored(p, s, "", intent, stored)
	return true, nil
}

// knownConflict returns the error for a known conflicting object, without a request, and keeps the watch of the object.
func (e *Reconciler) knownConflict(p *desired.Pass, s *desired.Child, i *apply.Intent) error {
	like := e.cache.NewResponse(s.GVK, s.Desired)
	if !e.references.Watched(s.ID(), like) {
		return nil
	}
	o, err := p.References.One(s.ID(), like)
	switch {
	case errors.Is(err, retry.ErrNotSynced):
		return err // it is being read; a failing attempt meanwhile would be polling
	case err != nil || o == nil:
		return nil //nolint:nilerr // without the permission to watch the object, the attempt to create it finds the conflict.
	case s.IsAdoptable(o):
		return nil
	default:
		return i.CheckOwnership(o)
	}
}

// maxConflictWatches is the maximum number of conflicting objects that are watched for one object. The others are polled, so
// that the number of watches does not depend on what is in the way.
const maxConflictWatches = 20

// conflictPoll is the time after which a conflict without a watch is looked for again.
const conflictPoll = time.Minute

// watchConflict makes the deletion of a conflicting object cause a reconcile.
func (e *Reconciler) watchConflict(p *desired.Pass, s *desired.Child) {
	watched := 0
	for t := range p.References.Used {
		if t.Key.Name != "" {
			watched++
		}
	}
	if watched >= maxConflictWatches {
		p.RequeueAfter(conflictPoll)
		return
	}
	// The first call only starts the watch. A later reconcile reads it.
	_, _ = p.References.One(s.ID(), e.cache.NewResponse(s.GVK, s.Desired))
}
