package configrollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
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
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/limiter"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/reference"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/trim"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/workload"
)

// queue is the workqueue of the controller.
type queue = workqueue.TypedRateLimitingInterface[limiter.Key]

// operator wires the reconciler to its watches.
type operator struct {
	options    Options
	namespaces []string
	cache      cache.Cache
	reconciler *reconciler
	queue      queue
}

// setUp adds the operator to a manager. It has a cache of its own with trimmed objects.
func setUp(mgr manager.Manager, options Options, namespaces []string, workers int) error {
	keys := &digest.KeyStore{Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Namespace: options.keyNamespace()}
	if options.Secrets && keys.Namespace == "" {
		return errors.New("--secrets: the program does not run in a cluster, whose namespace it would take for the key of the " +
			"digests: set --key-namespace")
	}
	c, err := newCache(mgr, namespaces)
	if err != nil {
		return err
	}
	op := &operator{options: options, namespaces: namespaces, cache: c}
	l := newLimiter(options, op.enqueue, countWaiting)
	external := &externalRollouts{known: map[limiter.Key]*externalRollout{}}
	fallback := &stateFallback{known: map[limiter.Key]*savedState{}}
	op.reconciler = &reconciler{
		observer: observer{
			options: options, workloads: c,
			store: digest.NewStore(digest.Options{
				Cached: c, Live: mgr.GetAPIReader(), Ignored: annotation.Ignored, Key: keys.Key, ObserveDuration: countDigest,
			}),
			failed: l.Failed,
			rolledOutByOthers: func(o client.Object, sources []digest.Source) bool {
				return external.podsYoungerThan(keyOf(o), o, sources)
			},
			recallRecord: fallback.recall,
		},
		writer: mgr.GetClient(), metadata: c, recorder: mgr.GetEventRecorder(Name),
		limiter: l, externalRollouts: external, fallback: fallback,
	}
	if len(namespaces) == 0 { // otherwise it would need a cluster-wide permission
		op.reconciler.namespaces = c
	}
	return op.watch(mgr, workers)
}

func newLimiter(o Options, enqueue func(limiter.Key), changed func(namespace string, pending, held int)) *limiter.Limiter {
	return limiter.New(limiter.Options{
		Limit: o.MaxConcurrent, PerNamespace: o.MaxConcurrentPerNamespace, MaxTime: o.MaxRolloutDeadline,
		Enqueue: enqueue, Changed: changed, Now: time.Now,
	})
}

func newCache(mgr manager.Manager, namespaces []string) (cache.Cache, error) {
	options := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), DefaultTransform: trim.Object,
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

// GetCache implements the interface that the manager uses to recognize a cache.
func (r runnableCache) GetCache() cache.Cache { return r.Cache }

// usedBy is the index of workloads by used object.
const usedBy = "usedBy"

// The initial and the maximal backoff after an error.
const (
	initialRetryBackoff = 20 * time.Millisecond
	maxRetryBackoff     = 30 * time.Second
)

func (op *operator) watch(mgr manager.Manager, workers int) error {
	c, err := controller.NewTyped(Name, mgr, controller.TypedOptions[limiter.Key]{
		Reconciler: op.reconciler, MaxConcurrentReconciles: workers, EnableWarmup: new(true),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[limiter.Key](initialRetryBackoff, maxRetryBackoff),
	})
	if err != nil {
		return fmt.Errorf("creating the controller: %w", err)
	}
	queued := source.TypedFunc[limiter.Key](func(_ context.Context, q queue) error {
		op.queue = q
		return nil
	})
	sources := []source.TypedSource[limiter.Key]{queued}
	for _, o := range workload.Kinds() {
		if err := op.cache.IndexField(context.Background(), o, usedBy, op.usedObjects); err != nil {
			return fmt.Errorf("indexing %s: %w", workload.KindOf(o), err)
		}
		sources = append(sources, source.TypedKind(op.cache, o, op.workloadHandler()))
	}
	for _, kind := range op.sourceKinds() {
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(string(kind)))
		sources = append(sources, source.TypedKind[client.Object](op.cache, meta, handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, o client.Object) []limiter.Key {
				return op.listKeys(ctx, o.GetNamespace(), client.MatchingFields{usedBy: string(kind) + "/" + o.GetName()})
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

// ready implements healthz.Checker: the operator is ready when its caches are in sync.
func (op *operator) ready(request *http.Request) error {
	ctx, cancel := context.WithCancel(request.Context())
	cancel() // check once, do not wait
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

// usedObjects lists the objects that a workload uses, for the index.
func (op *operator) usedObjects(o client.Object) []string {
	settings, _ := annotation.Parse(o.GetAnnotations(), 0)
	refs := reference.Collect(workload.Template(o), op.reconciler.references(settings))
	if reference.Excess(refs) != "" {
		return nil
	}
	var names []string
	for _, ref := range refs {
		names = append(names, ref.String())
	}
	return names
}

// enqueue adds a workload to the workqueue.
func (op *operator) enqueue(key limiter.Key) {
	if op.queue != nil {
		op.queue.Add(key)
	}
}

// listKeys lists the workloads of a namespace.
func (op *operator) listKeys(ctx context.Context, namespace string, opts ...client.ListOption) []limiter.Key {
	var keys []limiter.Key
	for _, list := range workload.Lists() {
		all := slices.Concat(opts, []client.ListOption{client.InNamespace(namespace), client.UnsafeDisableDeepCopy})
		if err := op.cache.List(ctx, list, all...); err != nil { // the cache is stopping
			continue
		}
		for _, o := range workload.Items(list) {
			keys = append(keys, keyOf(o))
		}
	}
	return keys
}

// workloadHandler updates the limiter and the memory with each version of a workload before it enqueues the workload.
func (op *operator) workloadHandler() handler.TypedEventHandler[client.Object, limiter.Key] {
	observe := func(o client.Object, q queue) {
		key := keyOf(o)
		if reserved(key.Namespace) {
			return
		}
		op.reconciler.fallback.observe(key, o)
		op.reconciler.limiter.Observe(key, op.reconciler.entryOf(o))
		op.reconciler.externalRollouts.observe(key, o)
		q.Add(key)
	}
	return handler.TypedFuncs[client.Object, limiter.Key]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { observe(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { observe(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { q.Add(keyOf(e.Object)) },
	}
}

// namespaceHandler enqueues all workloads of a namespace with a changed label, and of a new namespace: its workloads may
// have been observed before it.
func (op *operator) namespaceHandler() handler.TypedEventHandler[client.Object, limiter.Key] {
	return handler.TypedFuncs[client.Object, limiter.Key]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			for _, key := range op.listKeys(ctx, e.Object.GetName()) {
				q.Add(key)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
				return
			}
			for _, key := range op.listKeys(ctx, e.ObjectNew.GetName()) {
				q.Add(key)
			}
		},
	}
}

// reserved reports whether a namespace belongs to Kubernetes. The operator does nothing there: a rollout of a DaemonSet of
// kube-system may run a program on each node.
func reserved(namespace string) bool { return strings.HasPrefix(namespace, "kube-") }

func keyOf(o client.Object) limiter.Key {
	return limiter.Key{Kind: workload.KindOf(o), Namespace: o.GetNamespace(), Name: o.GetName()}
}

func namespaceMetadata() *metav1.PartialObjectMetadata {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return meta
}
