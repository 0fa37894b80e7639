package reconciler

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
)

// reconcileOnce reconciles once and reports whether another reconcile should follow at once. It never does after the last
// one.
func (e *Reconciler) reconcileOnce(
	ctx context.Context, key types.NamespacedName, last bool,
) (again bool, _ reconcile.Result, _ error) {
	loaded, gone, err := e.cache.Load(ctx, key)
	switch {
	case err != nil:
		return false, reconcile.Result{}, err
	case loaded == nil:
		return false, reconcile.Result{}, e.reconcileGone(ctx, key)
	case gone:
		return false, reconcile.Result{}, nil // our write removed the finalizer; the DELETE event is pending
	}
	o, ok := loaded.(desired.Object)
	if !ok {
		return false, reconcile.Result{}, fmt.Errorf("reading %s: the cache holds a %T", key, loaded)
	}
	st := e.objectState(key, o)
	if wait := time.Until(st.notBefore); wait > 0 && st.version == o.GetResourceVersion() {
		return false, reconcile.Result{RequeueAfter: wait}, nil
	}
	seen := e.cache.Snapshot(key, o.GetUID())
	// The fingerprint is read before the reconcile, so that no change during it is missed.
	now := seen.Fingerprint(o) + e.references.Fingerprint(key)
	if wait, idle := st.idle.stillIdle(now); idle {
		return false, reconcile.Result{RequeueAfter: seen.CapRequeue(wait)}, nil
	}
	out := e.runPass(ctx, st, o, seen)
	e.reportStale(ctx, st, o, seen, &out)
	again, result := e.result(ctx, st, o, out)
	if again && last {
		out.err = errNotConverging
		again, result = e.result(ctx, st, o, out)
	}
	if st.idle != nil {
		st.idle.fingerprint = now
		result.RequeueAfter = seen.CapRequeue(result.RequeueAfter)
	}
	return again, result, nil
}

// reconcileGone cleans up after an object that does not exist.
func (e *Reconciler) reconcileGone(ctx context.Context, key types.NamespacedName) error {
	e.mu.Lock()
	if st, ok := e.states[key]; ok {
		e.cache.Forget(st.uid)
		delete(e.states, key)
	}
	e.mu.Unlock()
	e.references.RetainOnly(key, nil)
	err := e.collectPredecessors(ctx, key, e.cache.Snapshot(key, "").PredecessorChildren)
	if apierrors.IsConflict(err) {
		return nil // the object changed since it was read; its event is pending
	}
	return err
}
