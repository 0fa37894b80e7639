// Package finalizer adds and removes one finalizer without ever losing those of other controllers.
//
// metadata.finalizers is a list, and a plain merge patch replaces it as a whole: the last write would erase finalizers that
// were added concurrently. Both functions carry the resourceVersion that they read (optimistic concurrency). The API server
// rejects an outdated write with a conflict, and the caller retries with a newer object.
//
// A finalizer must be stored before the first effect that it guards: call [Add] and act only after it returned nil. The
// package does not decide whether a finalizer is needed, nor does it run clean-up.
package finalizer

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// ErrDeleting means that a finalizer cannot be added because the object is being deleted.
var ErrDeleting = errors.New("the object is being deleted")

// Add ensures that the object has the finalizer and reports whether it wrote. On success o is the stored object. Errors:
// [ErrDeleting]; a conflict (see apierrors.IsConflict) if o is outdated; the errors of the API server.
func Add(ctx context.Context, c client.Client, o client.Object, name string) (bool, error) {
	if controllerutil.ContainsFinalizer(o, name) {
		return false, nil
	}
	if !o.GetDeletionTimestamp().IsZero() {
		return false, fmt.Errorf("adding finalizer %s: %w", name, ErrDeleting)
	}
	return patch(ctx, c, o, "adding", name, controllerutil.AddFinalizer)
}

// Remove ensures that the object does not have the finalizer and reports whether it wrote. It is no error if the object does
// not exist. On success o is the stored object, unless it does not exist any more. Errors: a conflict (see
// apierrors.IsConflict) if o is outdated; the errors of the API server.
func Remove(ctx context.Context, c client.Client, o client.Object, name string) (bool, error) {
	if !controllerutil.ContainsFinalizer(o, name) {
		return false, nil
	}
	wrote, err := patch(ctx, c, o, "removing", name, controllerutil.RemoveFinalizer)
	return wrote && err == nil, client.IgnoreNotFound(err)
}

func patch(
	ctx context.Context, c client.Client, o client.Object, verb, name string, change func(client.Object, string) bool,
) (bool, error) {
	from, to := object.Copy(o), object.Copy(o)
	change(to, name)
	data, err := client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}).Data(to)
	if err != nil {
		return false, fmt.Errorf("%s finalizer %s: %w", verb, name, err)
	}
	stored := object.Empty(o)
	stored.SetNamespace(o.GetNamespace())
	stored.SetName(o.GetName())
	if err := c.Patch(ctx, stored, client.RawPatch(types.MergePatchType, data)); err != nil {
		return false, fmt.Errorf("%s finalizer %s: %w", verb, name, err)
	}
	object.Assign(o, stored)
	return true, nil
}
