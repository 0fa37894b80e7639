package observed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// notSynced is the reason of a kind that was installed and has no synced informer yet, for messages.
const notSynced = "it was installed, and is not listed yet: if that lasts, let the operator's role list and watch it"

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// ownedKind is the event source of one owned kind, in all watched namespaces. While the API server does not know the kind,
// it delivers no events and does not delay the start of the controller.
type ownedKind struct {
	cache   *Cache
	gvk     schema.GroupVersionKind
	sources []source.SyncingSource
}

// String returns the name of the source for the log.
func (k *ownedKind) String() string { return "kind source: " + k.gvk.GroupKind().String() }

// Start implements source.Source.
func (k *ownedKind) Start(ctx context.Context, queue requestQueue) error {
	if k.cache.Known(k.gvk) {
		return k.start(ctx, queue)
	}
	log.FromContext(ctx).Info("A kind that the operator owns is not installed, and is watched once it is",
		"kind", k.gvk.String())
	k.cache.unwatched.Store(k.gvk, retry.NotInstalled)
	go k.waitAndStart(ctx, queue)
	return nil
}

func (k *ownedKind) start(ctx context.Context, queue requestQueue) error {
	for _, s := range k.sources {
		if err := s.Start(ctx, queue); err != nil {
			return fmt.Errorf("watching kind %s: %w", k.gvk.Kind, err)
		}
	}
	return nil
}

// WaitForSync implements source.SyncingSource.
func (k *ownedKind) WaitForSync(ctx context.Context) error {
	if k.cache.IsMissing(k.gvk) {
		return nil
	}
	return k.sync(ctx)
}

func (k *ownedKind) sync(ctx context.Context) error {
	for _, s := range k.sources {
		if err := s.WaitForSync(ctx); err != nil {
			return fmt.Errorf("waiting for the informer of kind %s: %w", k.gvk.Kind, err)
		}
	}
	return nil
}

// waitAndStart waits until the kind is installed, starts its informers and enqueues every object.
func (k *ownedKind) waitAndStart(ctx context.Context, queue requestQueue) {
	if k.cache.waitInstalled(ctx, k.gvk) != nil {
		return
	}
	k.cache.unwatched.Store(k.gvk, notSynced)
	if err := errors.Join(k.start(ctx, queue), k.sync(ctx)); err != nil {
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "A kind that was installed cannot be watched", "kind", k.gvk.String())
		}
		return
	}
	log.FromContext(ctx).Info("A kind that the operator owns was installed", "kind", k.gvk.String())
	k.cache.unwatched.Delete(k.gvk)
	k.cache.installedLater.Add(1)
	for _, key := range k.cache.primaryKeys() {
		queue.Add(reconcile.Request{NamespacedName: key})
	}
}

// waitInstalled polls until a kind is installed, first after 1 s, later every 30 s. Its only error is that of the context.
func (k *Kinds) waitInstalled(ctx context.Context, gvk schema.GroupVersionKind) error {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 30 * time.Second}
	for !k.Known(gvk) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(backoff.Step()):
		}
	}
	return nil
}

// Known reports whether the API server knows a kind. After a failed lookup it assumes so: the watch then fails and is
// retried.
func (k *Kinds) Known(gvk schema.GroupVersionKind) bool {
	_, err := k.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	return !meta.IsNoMatchError(err)
}

// IsMissing reports whether a kind is unwatched because it was not installed when the operator started.
func (k *Kinds) IsMissing(gvk schema.GroupVersionKind) bool {
	_, ok := k.unwatched.Load(gvk)
	return ok
}

// NotInstalledError returns the error for creating objects of a missing kind, or nil if the kind is installed.
func (k *Kinds) NotInstalledError(gvk schema.GroupVersionKind) error {
	why, ok := k.unwatched.Load(gvk)
	if !ok {
		return nil
	}
	return retry.KindNotInstalled(gvk, fmt.Sprint(why))
}

// MarkMissing records that the API server does not know a kind.
func (k *Kinds) MarkMissing(gvk schema.GroupVersionKind) { k.unwatched.Store(gvk, retry.NotInstalled) }
