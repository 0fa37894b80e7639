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

// workers is the number of objects, and of namespaces, processed concurrently.
const workers = 8

// The retry delay starts small, because most items wait for an event that arrives soon, and grows to a second.
const initialRetryBackoff, maxRetryBackoff = 5 * time.Millisecond, time.Second

// The names of the Kubernetes controllers. Admission policies make exceptions for them.
const collectorName, namespacesName = "generic-garbage-collector", "namespace-controller"

// A Collector collects garbage on one API server.
type Collector struct {
	core     kubernetes.Interface // as the namespace controller
	content  metadata.Interface   // as the namespace controller
	metadata metadata.Interface   // as the garbage collector
	dynamic  dynamic.Interface    // as the garbage collector
	mapper   meta.RESTMapper

	graph       *graph
	objects     workqueue.TypedRateLimitingInterface[types.UID]
	namespaces  workqueue.TypedRateLimitingInterface[string]
	terminating *firstSeen

	mu    sync.Mutex
	kinds map[schema.GroupResource]*monitor
	wg    sync.WaitGroup
}

// Start starts a collector that runs until ctx ends. It returns when all existing kinds are watched. Custom resources
// installed later are watched as soon as they are served.
func Start(ctx context.Context, cfg *rest.Config) (*Collector, error) {
	c, err := newCollector(cfg)
	if err != nil {
		return nil, err
	}
	if err := c.watchKinds(ctx); err != nil {
		c.stop()
		return nil, err
	}
	for range workers {
		c.wg.Go(func() { work(ctx, c.objects, c.processObject) })
		c.wg.Go(func() { work(ctx, c.namespaces, c.processNamespace) })
	}
	context.AfterFunc(ctx, c.stop)
	return c, nil
}

// Wait returns when a collector whose context has ended has stopped.
func (c *Collector) Wait() { c.wg.Wait() }

func newCollector(cfg *rest.Config) (*Collector, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "testkit-janitor"
	cfg.QPS = -1
	cfg.WarningHandler = rest.NoWarnings{} // it lists all kinds, including deprecated ones
	collector, collectorClient, err := controller(cfg, collectorName)
	if err != nil {
		return nil, err
	}
	namespaces, namespacesClient, err := controller(cfg, namespacesName)
	if err != nil {
		return nil, err
	}
	c := &Collector{
		graph:       newGraph(),
		terminating: newFirstSeen(),
		kinds:       map[schema.GroupResource]*monitor{},
		objects: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](initialRetryBackoff, maxRetryBackoff)),
		namespaces: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](initialRetryBackoff, maxRetryBackoff)),
	}
	if c.core, err = kubernetes.NewForConfigAndClient(namespaces, namespacesClient); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if c.content, err = metadata.NewForConfigAndClient(namespaces, namespacesClient); err != nil {
		return nil, fmt.Errorf("making a metadata client: %w", err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(collector, collectorClient); err != nil {
		return nil, fmt.Errorf("making a metadata client: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(collector, collectorClient); err != nil {
		return nil, fmt.Errorf("making a dynamic client: %w", err)
	}
	if c.mapper, err = apiutil.NewDynamicRESTMapper(collector, collectorClient); err != nil {
		return nil, fmt.Errorf("making a REST mapper: %w", err)
	}
	return c, nil
}

// controller returns the configuration and client of one of the Kubernetes controllers.
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

func (c *Collector) stop() {
	c.objects.ShutDown()
	c.namespaces.ShutDown()
}

// expected reports whether an error is part of normal operation: another client was faster, an object still exists, or
// a kind does not exist.
func expected(err error) bool {
	return errors.Is(err, errRemaining) || errors.Is(err, errOwnerNotObserved) ||
		errors.Is(err, errDependentNotObserved) || errors.Is(err, context.Canceled) || apierrors.IsConflict(err) ||
		apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
}

// work processes items of a queue until it is shut down. It requeues an item after an error.
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
