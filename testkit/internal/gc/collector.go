package gc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// workers is how many objects, and how many namespaces, are dealt with at once.
const workers = 8

// Retries start fast, because most wait for another event that is on its way, and slow down to once a second.
const firstRetry, lastRetry = 5 * time.Millisecond, time.Second

// What Kubernetes's own controllers are called: policies of admission make exceptions for them.
const collectorName, namespacesName = "generic-garbage-collector", "namespace-controller"

// A Janitor cleans up on one API server.
type Collector struct {
	core     kubernetes.Interface // as the namespace controller
	content  metadata.Interface   // as the namespace controller
	metadata metadata.Interface   // as the garbage collector
	dynamic  dynamic.Interface    // as the garbage collector
	mapper   meta.RESTMapper

	graph      *graph
	objects    workqueue.TypedRateLimitingInterface[types.UID]
	namespaces workqueue.TypedRateLimitingInterface[string]
	closing    *sightings

	mu    sync.Mutex
	kinds map[schema.GroupResource]*monitor
	wg    sync.WaitGroup
}

// Start makes a janitor that works until ctx ends. It returns when it watches all kinds there are; custom resources
// installed later are watched as soon as they are served.
func Start(ctx context.Context, cfg *rest.Config) (*Collector, error) {
	j, err := newJanitor(cfg)
	if err != nil {
		return nil, err
	}
	if err := j.watchKinds(ctx); err != nil {
		j.stop()
		return nil, err
	}
	for range workers {
		j.wg.Go(func() { work(ctx, j.objects, j.processObject) })
		j.wg.Go(func() { work(ctx, j.namespaces, j.processNamespace) })
	}
	context.AfterFunc(ctx, j.stop)
	return j, nil
}

// Wait returns when a janitor whose context has ended is at rest.
func (j *Collector) Wait() { j.wg.Wait() }

func newJanitor(cfg *rest.Config) (*Collector, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "testkit-janitor"
	cfg.QPS = -1
	cfg.WarningHandler = rest.NoWarnings{} // it lists deprecated kinds like all others
	collector, collectorClient, err := controller(cfg, collectorName)
	if err != nil {
		return nil, err
	}
	namespaces, namespacesClient, err := controller(cfg, namespacesName)
	if err != nil {
		return nil, err
	}
	j := &Collector{
		graph:   newGraph(),
		closing: newSightings(),
		kinds:   map[schema.GroupResource]*monitor{},
		objects: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](firstRetry, lastRetry)),
		namespaces: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
	}
	if j.core, err = kubernetes.NewForConfigAndClient(namespaces, namespacesClient); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if j.content, err = metadata.NewForConfigAndClient(namespaces, namespacesClient); err != nil {
		return nil, fmt.Errorf("making a metadata client: %w", err)
	}
	if j.metadata, err = metadata.NewForConfigAndClient(collector, collectorClient); err != nil {
		return nil, fmt.Errorf("making a metadata client: %w", err)
	}
	if j.dynamic, err = dynamic.NewForConfigAndClient(collector, collectorClient); err != nil {
		return nil, fmt.Errorf("making a dynamic client: %w", err)
	}
	if j.mapper, err = apiutil.NewDynamicRESTMapper(collector, collectorClient); err != nil {
		return nil, fmt.Errorf("making a REST mapper: %w", err)
	}
	return j, nil
}

// controller is what one of Kubernetes's own controllers would talk to the API server with.
func controller(cfg *rest.Config, name string) (*rest.Config, *http.Client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: serviceaccount.MakeUsername(metav1.NamespaceSystem, name),
		Groups:   append(serviceaccount.MakeGroupNames(metav1.NamespaceSystem), user.AllAuthenticated),
	}
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("making an HTTP client: %w", err)
	}
	return cfg, httpClient, nil
}

func (j *Collector) stop() {
	j.objects.ShutDown()
	j.namespaces.ShutDown()
}

// expected says whether an error is part of the work: somebody else was faster, something is not gone yet, or a kind
// is not there, or no longer.
func expected(err error) bool {
	return errors.Is(err, errRemaining) || errors.Is(err, errUnseen) || errors.Is(err, context.Canceled) ||
		apierrors.IsConflict(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
}

// work takes items from a queue until it is shut down. An item that cannot be finished is tried again later.
func work[T comparable](
	ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], process func(context.Context, T) error,
) {
	for {
		item, shutdown := queue.Get()
		if shutdown {
			return
		}
		if err := process(ctx, item); err != nil {
			if !expected(err) {
				utilruntime.HandleErrorWithContext(ctx, err, "Cleaning up", "item", item)
			}
			queue.AddRateLimited(item)
		} else {
			queue.Forget(item)
		}
		queue.Done(item)
	}
}
