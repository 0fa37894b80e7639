package sdk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// This file has the handling of kinds that are not installed, or not yet.

// Installed reports whether the API server knows the kind of like, an owned kind. A later installation of the kind causes a
// reconcile. Use it to do without an optional kind. Applying an object of a missing kind is a [Wait] with reason
// KindNotInstalled, so that p.Object is not ready.
func Installed[T Object](p *Pass[T], like client.Object) bool {
	gvk, err := apiutil.GVKForObject(like, p.snapshot.kinds.scheme)
	return err == nil && slices.Contains(p.snapshot.kinds.owned, gvk) && !p.snapshot.kinds.isMissing(gvk)
}

// ownedKind is the event source of one owned kind, in all watched namespaces. While the API server does not know the kind,
// it delivers no events and does not delay the start of the controller.
type ownedKind struct {
	cache   *readCache
	gvk     schema.GroupVersionKind
	sources []source.SyncingSource
}

// String returns the name of the source for the log.
func (k *ownedKind) String() string { return "kind source: " + k.gvk.GroupKind().String() }

// Start implements source.Source.
func (k *ownedKind) Start(ctx context.Context, queue requestQueue) error {
	if k.cache.known(k.gvk) {
		return k.start(ctx, queue)
	}
	log.FromContext(ctx).Info("A kind that the operator owns is not installed, and is watched once it is",
		"kind", k.gvk.String())
	k.cache.unwatched.Store(k.gvk, notInstalled)
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
	if k.cache.isMissing(k.gvk) {
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
func (k *kinds) waitInstalled(ctx context.Context, gvk schema.GroupVersionKind) error {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 30 * time.Second}
	for !k.known(gvk) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(backoff.Step()):
		}
	}
	return nil
}

// Reasons for an unwatched kind, in messages.
const (
	notInstalled = "the API server does not know it: install its CRD"
	notSynced    = "it was installed, and is not listed yet: if that lasts, let the operator's role list and watch it"
)

// known reports whether the API server knows a kind. After a failed lookup it assumes so: the watch then fails and is
// retried.
func (k *kinds) known(gvk schema.GroupVersionKind) bool {
	_, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	return !meta.IsNoMatchError(err)
}

// isMissing reports whether a kind is unwatched because it was not installed when the operator started.
func (k *kinds) isMissing(gvk schema.GroupVersionKind) bool {
	_, ok := k.unwatched.Load(gvk)
	return ok
}

// notInstalledError returns the error for creating objects of a missing kind, or nil if the kind is installed.
func (k *kinds) notInstalledError(gvk schema.GroupVersionKind) error {
	why, ok := k.unwatched.Load(gvk)
	if !ok {
		return nil
	}
	return kindNotInstalled(gvk, fmt.Sprint(why))
}

// unknownKind reports whether a request failed because the API server does not know the kind.
func unknownKind(err error) bool {
	return meta.IsNoMatchError(err) ||
		apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// crdWaitManager is a manager with controllers that wait for their kind without a limit.
type crdWaitManager struct{ manager.Manager }

// GetControllerOptions implements manager.Manager.
func (p crdWaitManager) GetControllerOptions() config.Controller {
	options := p.Manager.GetControllerOptions()
	options.CacheSyncTimeout = math.MaxInt64
	return options
}

// waitForCRD returns the manager, wrapped in crdWaitManager if the API server does not know the operator's kind yet. It
// returns an error at once if the API server does not respond, instead of after the timeout of the caches.
func (op *Operator[T]) waitForCRD(mgr manager.Manager) (manager.Manager, error) {
	k, err := op.kinds(mgr.GetScheme(), mgr.GetRESTMapper())
	if err != nil {
		return nil, err
	}
	switch _, err := k.mapper.RESTMapping(k.primary.GroupKind(), k.primary.Version); {
	case err == nil:
		return mgr, nil
	case meta.IsNoMatchError(err):
		return crdWaitManager{mgr}, nil
	default:
		return nil, fmt.Errorf("asking the API server for kind %s: %w", k.primary.Kind, err)
	}
}

// crdWaitCache is the cache of the operator's kind. Its informer is created after the API server knows the kind.
type crdWaitCache struct {
	cache.Cache
	kinds *kinds
	log   logr.Logger
}

// GetInformer implements cache.Cache.
func (c crdWaitCache) GetInformer(
	ctx context.Context, o client.Object, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	if err := c.kinds.waitPrimaryInstalled(ctx, c.log); err != nil {
		return nil, err
	}
	return c.Cache.GetInformer(ctx, o, opts...)
}

// waitPrimaryInstalled waits for the operator's kind and logs it.
func (k *kinds) waitPrimaryInstalled(ctx context.Context, logger logr.Logger) error {
	if k.known(k.primary) {
		return nil
	}
	if _, logged := k.unwatched.LoadOrStore(k.primary, notInstalled); !logged { // logged by the cache of another namespace
		logger.Error(k.primaryMissing(), "The operator waits for its kind")
	}
	if err := k.waitInstalled(ctx, k.primary); err != nil {
		return err
	}
	if _, waited := k.unwatched.LoadAndDelete(k.primary); waited {
		logger.Info("The operator's kind was installed", "kind", k.primary.String())
	}
	return nil
}

// primaryMissing returns the error for a missing operator's kind.
func (k *kinds) primaryMissing() error {
	return fmt.Errorf("kind %s of %s is not installed in the cluster: install the operator's CRDs, for example with "+
		"kubectl apply -k config/crd", k.primary.Kind, k.primary.GroupVersion())
}

const reasonKindNotInstalled = "KindNotInstalled"

func kindNotInstalled(gvk schema.GroupVersionKind, why string) error {
	return Wait(reasonKindNotInstalled, "kind %s of %s is missing: %s", gvk.Kind, gvk.GroupVersion(), why)
}
