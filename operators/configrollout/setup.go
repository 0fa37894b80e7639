package configrollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/digest"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/wave"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// queue is what the controller works off.
type queue = workqueue.TypedRateLimitingInterface[wave.Key]

// operator is the wiring of the reconciler: what is watched, and whom that concerns.
type operator struct {
	options    Options
	namespaces []string
	cache      cache.Cache
	reconciler *reconciler
	queue      queue
}

// setUp adds the operator to a manager, with a cache of its own, because it keeps less than a general one would.
func setUp(mgr manager.Manager, options Options, namespaces []string, workers int) error {
	c, err := newCache(mgr, namespaces)
	if err != nil {
		return err
	}
	op := &operator{options: options, namespaces: namespaces, cache: c}
	w := wave.New(options.MaxConcurrent, options.MaxConcurrentPerNamespace, op.wake, countWaiting)
	known, kept := &renewals{known: map[wave.Key]*renewal{}}, &records{known: map[wave.Key]*kept{}}
	op.reconciler = &reconciler{
		observer: observer{
			options: options, workloads: c,
			store:   digest.NewStore(c, mgr.GetAPIReader(), ignored, countDigest),
			failed:  w.Failed,
			renewed: func(o client.Object, sources []digest.Source) bool { return known.after(keyOf(o), o, sources) },
			recall:  kept.recall,
		},
		writer: mgr.GetClient(), metadata: c, recorder: mgr.GetEventRecorder(Name), wave: w, renewals: known, records: kept,
	}
	if len(namespaces) == 0 { // else it would need a right in the whole cluster
		op.reconciler.namespaces = c
	}
	return op.watch(mgr, workers)
}

func newCache(mgr manager.Manager, namespaces []string) (cache.Cache, error) {
	options := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), DefaultTransform: trim,
	}
	if len(namespaces) > 0 {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range namespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	c, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, fmt.Errorf("creating the cache: %w", err)
	}
	if err := mgr.Add(runnableCache{c}); err != nil {
		return nil, fmt.Errorf("adding the cache to the manager: %w", err)
	}
	return c, nil
}

// runnableCache makes the manager start a cache with its own caches, before any controller and without leader election.
type runnableCache struct{ cache.Cache }

// GetCache implements the interface by which the manager knows a cache.
func (r runnableCache) GetCache() cache.Cache { return r.Cache }

// trim drops what is large and not looked at.
func trim(o any) (any, error) {
	if meta, ok := o.(metav1.Object); ok {
		meta.SetManagedFields(nil)
		delete(meta.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	}
	return o, nil
}

// usedBy is the index by which workloads are found that use an object.
const usedBy = "usedBy"

// What fails is tried again after the first pause, then later and later until the last.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 30 * time.Second
)

func (op *operator) watch(mgr manager.Manager, workers int) error {
	c, err := controller.NewTyped(Name, mgr, controller.TypedOptions[wave.Key]{
		Reconciler: op.reconciler, MaxConcurrentReconciles: workers, EnableWarmup: new(true),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[wave.Key](firstRetry, lastRetry),
	})
	if err != nil {
		return fmt.Errorf("creating the controller: %w", err)
	}
	queued := source.TypedFunc[wave.Key](func(_ context.Context, q queue) error {
		op.queue = q
		return nil
	})
	sources := []source.TypedSource[wave.Key]{queued}
	for _, o := range workload.Kinds() {
		if err := op.cache.IndexField(context.Background(), o, usedBy, op.uses); err != nil {
			return fmt.Errorf("indexing %s: %w", workload.KindOf(o), err)
		}
		sources = append(sources, source.TypedKind(op.cache, o, op.workloadHandler()))
	}
	for _, kind := range op.sourceKinds() {
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(string(kind)))
		sources = append(sources, source.TypedKind[client.Object](op.cache, meta, handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, o client.Object) []wave.Key {
				return op.list(ctx, o.GetNamespace(), client.MatchingFields{usedBy: string(kind) + "/" + o.GetName()})
			})))
	}
	if len(op.namespaces) == 0 {
		sources = append(sources, source.TypedKind[client.Object](op.cache, namespaceMetadata(), op.namespaceHandler()))
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	if err := mgr.AddReadyzCheck(Name, op.ready); err != nil {
		return fmt.Errorf("adding the readiness check: %w", err)
	}
	return nil
}

// ready implements healthz.Checker: the operator is ready when it knows all that there is.
func (op *operator) ready(request *http.Request) error {
	ctx, cancel := context.WithCancel(request.Context())
	cancel() // look, and do not wait
	if !op.cache.WaitForCacheSync(ctx) {
		return errors.New("the caches are not in sync yet")
	}
	return nil
}

func (op *operator) sourceKinds() []reference.Kind {
	if op.options.Secrets {
		return []reference.Kind{reference.ConfigMap, reference.Secret}
	}
	return []reference.Kind{reference.ConfigMap}
}

// uses lists what a workload uses, for the index.
func (op *operator) uses(o client.Object) []string {
	settings, _ := annotation.Parse(o.GetAnnotations(), 0)
	var names []string
	for _, ref := range reference.Collect(workload.Template(o), op.reconciler.references(settings)) {
		names = append(names, ref.String())
	}
	return names
}

// wake puts a workload into the queue.
func (op *operator) wake(key wave.Key) {
	if op.queue != nil {
		op.queue.Add(key)
	}
}

// list names the workloads of a namespace.
func (op *operator) list(ctx context.Context, namespace string, opts ...client.ListOption) []wave.Key {
	var keys []wave.Key
	for _, list := range workload.Lists() {
		all := slices.Concat(opts, []client.ListOption{client.InNamespace(namespace), client.UnsafeDisableDeepCopy})
		if err := op.cache.List(ctx, list, all...); err != nil { // the cache is about to end
			continue
		}
		for _, o := range workload.Items(list) {
			keys = append(keys, keyOf(o))
		}
	}
	return keys
}

// workloadHandler tells the wave of each version of a workload before the workload is looked at.
func (op *operator) workloadHandler() handler.TypedEventHandler[client.Object, wave.Key] {
	observe := func(o client.Object, q queue) {
		key := keyOf(o)
		op.reconciler.records.observe(key, o)
		op.reconciler.wave.Observe(key, op.reconciler.entryOf(o))
		op.reconciler.renewals.observe(key, o)
		q.Add(key)
	}
	return handler.TypedFuncs[client.Object, wave.Key]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { observe(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { observe(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { q.Add(keyOf(e.Object)) },
	}
}

// namespaceHandler looks at all workloads of a namespace whose label changed, and of one that is new here: its workloads may
// have been seen before it.
func (op *operator) namespaceHandler() handler.TypedEventHandler[client.Object, wave.Key] {
	return handler.TypedFuncs[client.Object, wave.Key]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			for _, key := range op.list(ctx, e.Object.GetName()) {
				q.Add(key)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
				return
			}
			for _, key := range op.list(ctx, e.ObjectNew.GetName()) {
				q.Add(key)
			}
		},
	}
}

func keyOf(o client.Object) wave.Key {
	return wave.Key{Kind: workload.KindOf(o), Namespace: o.GetNamespace(), Name: o.GetName()}
}

func namespaceMetadata() *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return meta
}
