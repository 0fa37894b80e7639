package reconciler

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/finalizer"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// releaseFinalizer removes the tracking finalizer from a child. It sends nothing else: an apply of the whole child could be
// rejected, because admission may have changed an immutable field when the child was created.
func (e *Reconciler) releaseFinalizer(
	ctx context.Context, p *desired.Pass, s *desired.Child, intent *apply.Intent,
) (bool, error) {
	if !s.IsReleasable(e.op.FinalizerName) {
		return false, nil
	}
	released, err := e.release(ctx, p.Object.GetUID(), s.ID(), s.Live)
	if err != nil || released == nil {
		return false, e.rejected(p, s, intent, err)
	}
	if !s.CreateOnly && !s.Terminating {
		e.owner.MarkConverged(intent, released)
	}
	s.Live = released
	s.Stored = released
	return true, nil
}

// addChildFinalizer adds the tracking finalizer to a child if another client removed it, or if an earlier version of the
// operator did not set it. It sends nothing else, for the reason given for releaseFinalizer.
func (e *Reconciler) addChildFinalizer(
	ctx context.Context, p *desired.Pass, s *desired.Child, intent *apply.Intent,
) (bool, error) {
	if err := e.checkContention(ctx, p, s, intent); err != nil {
		return false, err
	}
	o := object.Copy(s.Live)
	_, err := finalizer.Add(ctx, e.client, o, e.op.FinalizerName)
	if err != nil {
		return false, e.missing(p, s, intent, "tracking", err)
	}
	e.recordStored(p, s, s.Live.GetResourceVersion(), intent, o)
	s.Live = o
	return true, nil
}

// release removes the tracking finalizer from a child and returns the response, nil if the child does not exist any more.
// Without a parent the response is not recorded, because no later reconcile reads it.
func (e *Reconciler) release(
	ctx context.Context, parent types.UID, id object.ID, live client.Object,
) (client.Object, error) {
	o := object.Copy(live)
	wrote, err := finalizer.Remove(ctx, e.client, o, e.op.FinalizerName)
	if err != nil {
		return nil, fmt.Errorf("releasing %s: %w", id, err)
	}
	if !wrote {
		return nil, nil //nolint:nilnil // a missing object is no error.
	}
	if parent != "" {
		e.cache.RecordWrite(id.GVK, parent, o)
	}
	return o, nil
}
