package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// create creates a child that is missing in the cache. An object that exists nevertheless is a child that the cache does not
// show yet, or a conflicting object.
func (e *Reconciler) create(ctx context.Context, p *desired.Pass, s *desired.Child, intent *apply.Intent) (bool, error) {
	if predecessor, ok := p.Snapshot.PredecessorChildren[s.ID()]; ok {
		return false, predecessorError(s, predecessor)
	}
	if !e.cache.Watches(s.Key.Namespace) {
		message := fmt.Sprintf("%s is in a namespace that the operator does not watch: add it to --watch-namespaces", s)
		return false, &retry.ReconcileError{Class: retry.ClassRejected, Reason: "NamespaceNotWatched", Message: message}
	}
	if err := e.knownConflict(p, s, intent); err != nil {
		return false, s.Conflict(err)
	}
	if err := checkRecreation(p, s, intent); err != nil {
		return false, err
	}
	stored := e.cache.NewResponse(s.GVK, s.Desired)
	err := e.owner.Create(ctx, e.client, intent, stored)
	if err == nil {
		e.recordStored(p, s, "", intent, stored)
		p.Retries.RecordApply(s.CreationKey(intent), time.Now())
		return true, p.Retries.RecentContention(s.CreationKey(intent), p.Now)
	}
	if !errors.Is(err, apply.ErrStale) {
		return false, e.rejected(p, s, intent, err)
	}
	live := e.cache.NewResponse(s.GVK, s.Desired)
	if s.MayAdopt != nil { // the function may read any field
		live = object.Empty(s.Desired)
	}
	if getErr := e.client.Get(ctx, s.Key, live); getErr != nil {
		return false, e.missing(p, s, intent, "reading", getErr)
	}
	switch err := intent.CheckOwnership(live); {
	case err != nil && s.IsAdoptable(live):
		return e.adopt(ctx, p, s, intent, live)
	case err != nil:
		e.watchConflict(p, s)
		return false, s.Conflict(err)
	}
	live = e.cache.AsCached(s.GVK, live)
	s.Live = live
	s.Stored = live
	s.Terminating = !live.GetDeletionTimestamp().IsZero()
	if s.Terminating || s.CreateOnly || e.owner.Converged(intent, live) {
		return false, nil
	}
	return e.update(ctx, p, s, intent)
}

// checkRecreation delays the creation of a child that was deleted again and again. It does not delay a child with a tracking
// finalizer: the operator has recorded each deletion, and decides itself when it creates the next instance.
func checkRecreation(p *desired.Pass, s *desired.Child, i *apply.Intent) error {
	wait, contended := p.Retries.ContentionDelay(s.CreationKey(i), p.Now)
	if !contended || s.Hold {
		return nil
	}
	message := fmt.Sprintf("%s is deleted again and again by another client: let one of the two manage it", s)
	return p.Retries.RecordContention(s.CreationKey(i), message, wait, p.Now)
}

func predecessorError(s *desired.Child, predecessor observed.Child) error {
	message := fmt.Sprintf("%s of the former object of this name", s)
	if predecessor.Terminating {
		return retry.Wait("WaitingForFormer", "%s is still being deleted", message)
	}
	return retry.Wait("WaitingForFormer", "%s still exists and is about to be collected as garbage", message)
}

func (e *Reconciler) update(ctx context.Context, p *desired.Pass, s *desired.Child, intent *apply.Intent) (bool, error) {
	if err := e.checkContention(ctx, p, s, intent); err != nil {
		return false, err
	}
	stored := object.Empty(s.Desired)
	err := e.owner.Update(ctx, e.client, intent, s.Live, stored)
	if err == nil {
		e.recordStored(p, s, s.Live.GetResourceVersion(), intent, stored)
		return true, p.Retries.RecentContention(s.RetryKey(intent), p.Now)
	}
	if !apierrors.IsInvalid(err) || errors.Is(err, apply.ErrStale) {
		return false, e.rejected(p, s, intent, err)
	}
	return e.immutable(ctx, p, s, intent, err)
}

// checkContention checks for a contention before an update and names the conflicting managers.
func (e *Reconciler) checkContention(ctx context.Context, p *desired.Pass, s *desired.Child, i *apply.Intent) error {
	wait, contended := p.Retries.ContentionDelay(s.RetryKey(i), p.Now)
	if !contended {
		return nil
	}
	// The cache keeps only our own managedFields entry, so the names of the other managers cost one request in each
	// contention.
	live, managers := object.Empty(s.Desired), "another field manager"
	if err := e.client.Get(ctx, client.ObjectKeyFromObject(s.Live), live); err == nil {
		if names := i.ConflictingManagers(live, e.owner.Name()); len(names) > 0 {
			managers = strings.Join(names, ", ")
		}
	}
	message := fmt.Sprintf("%s is changed back again and again by %s: let one of the two manage it", s, managers)
	return p.Retries.RecordContention(s.RetryKey(i), message, wait, p.Now)
}
