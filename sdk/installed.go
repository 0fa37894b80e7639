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

// This file is about kinds that the API server does not know, or not yet.

// Installed reports whether the API server knows the kind of like, which the operator owns. A pass follows when that
// changes for the better. Ask it to do without a kind that a cluster need not have; to apply an object of such a kind all
// the same is a [Wait] with reason KindNotInstalled, which keeps p.Object from being ready.
func Installed[T Object](p *Pass[T], like client.Object) bool {
	gvk, err := apiutil.GVKForObject(like, p.seen.kinds.scheme)
	return err == nil && slices.Contains(p.seen.kinds.owned, gvk) && !p.seen.kinds.missing(gvk)
}

// ownedKind is the source of the events of one owned kind, in all namespaces that are watched. While the API server does
// not know the kind it delivers none and holds nobody up.
type ownedKind struct {
	view    *view
	gvk     schema.GroupVersionKind
	sources []source.SyncingSource
}

// String names the kind, in the log.
func (k *ownedKind) String() string { return "kind source: " + k.gvk.GroupKind().String() }

// Start implements source.Source.
func (k *ownedKind) Start(ctx context.Context, queue requestQueue) error {
	if k.view.known(k.gvk) {
		return k.start(ctx, queue)
	}
	log.FromContext(ctx).Info("A kind that the operator owns is not installed, and is watched once it is",
		"kind", k.gvk.String())
	k.view.unwatched.Store(k.gvk, notInstalled)
	go k.await(ctx, queue)
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
	if k.view.missing(k.gvk) {
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

// await waits until the kind is there, and has every object looked at then.
func (k *ownedKind) await(ctx context.Context, queue requestQueue) {
	if k.view.await(ctx, k.gvk) != nil {
		return
	}
	k.view.unwatched.Store(k.gvk, notSynced)
	if err := errors.Join(k.start(ctx, queue), k.sync(ctx)); err != nil {
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "A kind that was installed cannot be watched", "kind", k.gvk.String())
		}
		return
	}
	log.FromContext(ctx).Info("A kind that the operator owns was installed", "kind", k.gvk.String())
	k.view.unwatched.Delete(k.gvk)
	k.view.arrived.Add(1)
	for _, key := range k.view.all() {
		queue.Add(reconcile.Request{NamespacedName: key})
	}
}

// await asks for a kind until it is there, each second at first and each 30 s later. Its only error is that of the context.
func (k *kinds) await(ctx context.Context, gvk schema.GroupVersionKind) error {
	pause := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: 30 * time.Second} //nolint:mnd // said above.
	for !k.known(gvk) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause.Step()):
		}
	}
	return nil
}

// Why a kind is not watched, for the message.
const (
	notInstalled = "the API server does not know it: install its CRD"
	notSynced    = "it was installed, and is not listed yet: if that lasts, let the operator's role list and watch it"
)

// known reports whether the API server knows a kind. One that cannot be asked is taken to know it: to watch it then fails
// and is tried again.
func (k *kinds) known(gvk schema.GroupVersionKind) bool {
	_, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	return !meta.IsNoMatchError(err)
}

// missing reports whether a kind is not watched because it was not installed when the operator started.
func (k *kinds) missing(gvk schema.GroupVersionKind) bool {
	_, ok := k.unwatched.Load(gvk)
	return ok
}

// absent returns what there is to wait for before objects of that kind can be made, or nil.
func (k *kinds) absent(gvk schema.GroupVersionKind) error {
	why, ok := k.unwatched.Load(gvk)
	if !ok {
		return nil
	}
	return kindNotInstalled(gvk, fmt.Sprint(why))
}

// unknownKind reports whether the API server does not know the kind that a request was about, any more or at all.
func unknownKind(err error) bool {
	return meta.IsNoMatchError(err) ||
		apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// patient is a manager whose controllers wait for their kind for as long as it takes.
type patient struct{ manager.Manager }

// GetControllerOptions implements manager.Manager.
func (p patient) GetControllerOptions() config.Controller {
	options := p.Manager.GetControllerOptions()
	options.CacheSyncTimeout = math.MaxInt64
	return options
}

// patiently returns the manager, and a patient one if the API server does not know the operator's kind yet. Of a server that
// does not answer it tells at once, rather than when the caches have waited for it.
func (op *Operator[T]) patiently(mgr manager.Manager) (manager.Manager, error) {
	k, err := op.kinds(mgr.GetScheme(), mgr.GetRESTMapper())
	if err != nil {
		return nil, err
	}
	switch _, err := k.mapper.RESTMapping(k.primary.GroupKind(), k.primary.Version); {
	case err == nil:
		return mgr, nil
	case meta.IsNoMatchError(err):
		return patient{mgr}, nil
	default:
		return nil, fmt.Errorf("asking the API server for kind %s: %w", k.primary.Kind, err)
	}
}

// patientCache is the cache of the operator's kind, whose informer is there once the API server knows the kind.
type patientCache struct {
	cache.Cache
	kinds *kinds
	log   logr.Logger
}

// GetInformer implements cache.Cache.
func (c patientCache) GetInformer(
	ctx context.Context, o client.Object, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	if err := c.kinds.awaitPrimary(ctx, c.log); err != nil {
		return nil, err
	}
	return c.Cache.GetInformer(ctx, o, opts...)
}

// awaitPrimary waits for the operator's kind, and says so.
func (k *kinds) awaitPrimary(ctx context.Context, logger logr.Logger) error {
	if k.known(k.primary) {
		return nil
	}
	if _, told := k.unwatched.LoadOrStore(k.primary, notInstalled); !told { // by the cache of another namespace
		logger.Error(k.primaryMissing(), "The operator waits for its kind")
	}
	if err := k.await(ctx, k.primary); err != nil {
		return err
	}
	if _, told := k.unwatched.LoadAndDelete(k.primary); told {
		logger.Info("The operator's kind was installed", "kind", k.primary.String())
	}
	return nil
}

// primaryMissing says that the API server does not know the operator's kind.
func (k *kinds) primaryMissing() error {
	return fmt.Errorf("kind %s of %s is not installed in the cluster: install the operator's CRDs, for example with "+
		"kubectl apply -k config/crd", k.primary.Kind, k.primary.GroupVersion())
}

const reasonKindNotInstalled = "KindNotInstalled"

func kindNotInstalled(gvk schema.GroupVersionKind, why string) error {
	return Wait(reasonKindNotInstalled, "kind %s of %s is missing: %s", gvk.Kind, gvk.GroupVersion(), why)
}
