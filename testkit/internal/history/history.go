// Package history watches every object of some namespaces, whoever writes it, and remembers each state that it had.
//
// One set of watches serves any number of namespaces one after the other, so that following one more costs nothing.
package history

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// ignored are resources that say nothing about an operator, or the same as another one.
var ignored = map[schema.GroupResource]bool{
	{Group: "events.k8s.io", Resource: "events"}:                           true, // the same objects as the core group's
	{Group: "coordination.k8s.io", Resource: "leases"}:                     true,
	{Group: "coordination.k8s.io", Resource: "leasecandidates"}:            true,
	{Group: "discovery.k8s.io", Resource: "endpointslices"}:                true,
	{Group: "", Resource: "endpoints"}:                                     true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: true,
}

// Change is one new state of an object.
type Change struct {
	// At is when the change was seen, which is some milliseconds after it was made.
	At time.Time
	// Type is ADDED, MODIFIED or DELETED.
	Type watch.EventType
	// Resource is the object's.
	Resource schema.GroupVersionResource
	// Object is its new state, or its last one if it was deleted. It is shared: do not change it.
	Object *unstructured.Unstructured
}

// A Historian watches one API server for all who joined it. It is safe for concurrent use.
type Recorder struct {
	cfg    *rest.Config
	client dynamic.Interface
	ctx    context.Context //nolint:containedctx // of the watches, which are begun at several times
	cancel context.CancelFunc
	done   sync.WaitGroup
	refs   int // guarded by historians.mu

	extending sync.Mutex

	mu      sync.Mutex
	watches map[schema.GroupVersionResource]kindWatch
	logs    map[string][]*Log // by namespace
}

type kindWatch struct {
	synced  cache.InformerSynced // or it may not be seen
	refused *atomic.Bool
	cancel  context.CancelFunc
}

// recorders are those of this process. Each event that a watch brings is decoded, whoever wants it: one set of watches for
// everybody costs a part of one set for each test.
var recorders struct {
	mu       sync.Mutex
	byServer map[string]*Recorder
}

// Acquire returns the historian of an API server, and starts it if this process has none. It watches all kinds of namespaced
// objects that there are by now. Each call needs one of Leave. Of ctx only the wait depends.
func Acquire(ctx context.Context, cfg *rest.Config) (*Recorder, error) {
	h, err := acquire(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("watching all objects: %w", err)
	}
	if err := h.extend(ctx); err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
}

func acquire(ctx context.Context, cfg *rest.Config) (*Recorder, error) {
	recorders.mu.Lock()
	defer recorders.mu.Unlock()
	if h := recorders.byServer[cfg.Host]; h != nil {
		h.refs++
		return h, nil
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller does
	}
	h := &Recorder{
		cfg: cfg, client: client, refs: 1, watches: map[schema.GroupVersionResource]kindWatch{}, logs: map[string][]*Log{},
	}
	// That watches break off when they are stopped is no news.
	h.ctx, h.cancel = context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	if recorders.byServer == nil {
		recorders.byServer = map[string]*Recorder{}
	}
	recorders.byServer[cfg.Host] = h
	return h, nil
}

// Release ends the watches when nobody needs them any more.
func (r *Recorder) Release() {
	recorders.mu.Lock()
	r.refs--
	last := r.refs == 0
	if last {
		delete(recorders.byServer, r.cfg.Host)
	}
	recorders.mu.Unlock()
	if last {
		r.cancel()
		r.done.Wait()
	}
}

// extend brings the watches up to the kinds that there are, and waits until all are in sync.
func (r *Recorder) extend(ctx context.Context) error {
	r.extending.Lock()
	defer r.extending.Unlock()
	kinds, complete, err := watchable(r.cfg)
	if err != nil {
		return err
	}
	for _, synced := range r.update(kinds, complete) {
		for !synced() {
			select {
			case <-time.After(5 * time.Millisecond): //nolint:mnd // they are there in a few of these
			case <-ctx.Done():
				return fmt.Errorf("watching all objects: %w", ctx.Err())
			}
		}
	}
	return nil
}

// update begins the watches of kinds that are new and, if the list is complete, ends those of kinds that are gone. What it
// returns tells of each whether it is in sync.
func (r *Recorder) update(kinds []schema.GroupVersionResource, complete bool) []cache.InformerSynced {
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind, w := range r.watches {
		if complete && !slices.Contains(kinds, kind) { // if it comes again, it is not what this watch waits for
			w.cancel()
			delete(r.watches, kind)
		}
	}
	all := make([]cache.InformerSynced, 0, len(kinds))
	for _, kind := range kinds {
		w, exists := r.watches[kind]
		if !exists {
			ctx, cancel := context.WithCancel(r.ctx)
			w = kindWatch{refused: &atomic.Bool{}, cancel: cancel}
			w.synced = r.follow(ctx, r.client.Resource(kind), kind, w.refused)
			r.watches[kind] = w
		}
		all = append(all, w.synced)
	}
	return all
}

// Follows reports whether the objects of a resource are watched, and may be.
func (r *Recorder) Follows(group, resource string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind, w := range r.watches {
		if kind.Group == group && kind.Resource == resource {
			return !w.refused.Load()
		}
	}
	return false
}

// watchable lists the kinds of namespaced objects that can be watched.
// They may be incomplete, because an API server that is not Kubernetes's own does not answer.
func watchable(cfg *rest.Config) (kinds []schema.GroupVersionResource, complete bool, _ error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, false, fmt.Errorf("asking for the API server's kinds: %w", err)
	}
	lists, err := client.ServerPreferredNamespacedResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, false, fmt.Errorf("asking for the API server's kinds: %w", err)
	}
	complete = err == nil
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // not a version that could be asked for
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "watch") && slices.Contains(r.Verbs, "list") &&
				!ignored[schema.GroupResource{Group: gv.Group, Resource: r.Name}] {
				kinds = append(kinds, gv.WithResource(r.Name))
			}
		}
	}
	return kinds, complete, nil
}

// follow watches one kind until ctx ends. The API server ends a watch whose client is too slow for it, and may have
// forgotten by then what came next: an informer lists everything then, so that a state may be missed and never what is
// there. A kind that may not be seen counts as synced, for whoever may not see it does without it.
func (r *Recorder) follow(
	ctx context.Context, client dynamic.NamespaceableResourceInterface, kind schema.GroupVersionResource,
	refused *atomic.Bool,
) cache.InformerSynced {
	told := func(t watch.EventType) func(any) {
		return func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			if u, ok := obj.(*unstructured.Unstructured); ok {
				r.dispatch(kind, t, u)
			}
		}
	}
	added, modified, deleted := told(watch.Added), told(watch.Modified), told(watch.Deleted)
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				list, err := client.List(ctx, o)
				if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) {
					refused.Store(true)
				}
				return list, err //nolint:wrapcheck // for the informer
			},
			WatchFuncWithContext: client.Watch,
		},
		ObjectType: &unstructured.Unstructured{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: added,
			UpdateFunc: func(before, after any) {
				a, isA := before.(*unstructured.Unstructured)
				b, isB := after.(*unstructured.Unstructured)
				switch {
				case !isA || !isB || a.GetResourceVersion() == b.GetResourceVersion():
				case a.GetUID() != b.GetUID(): // another one of that name, and the end of the first was missed
					deleted(before)
					added(after)
				default:
					modified(after)
				}
			},
			DeleteFunc: deleted,
		},
	})
	r.done.Go(func() { informer.RunWithContext(ctx) })
	return func() bool { return refused.Load() || informer.HasSynced() }
}

func (r *Recorder) dispatch(kind schema.GroupVersionResource, t watch.EventType, u *unstructured.Unstructured) {
	r.mu.Lock()
	logs := r.logs[u.GetNamespace()]
	r.mu.Unlock()
	for _, l := range logs {
		l.add(Change{At: time.Now(), Type: t, Resource: kind, Object: u})
	}
}

// Follow begins the log of a namespace. What is in it already is not told.
func (r *Recorder) Follow(namespace string) *Log {
	l := &Log{
		Began: time.Now(), recorder: r, namespace: namespace, current: map[types.UID]int{}, changed: make(chan struct{}),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs[namespace] = append(slices.Clip(r.logs[namespace]), l)
	return l
}

// Log is the history of one namespace. It is safe for concurrent use.
type Log struct {
	// Began is when it was begun.
	Began time.Time

	recorder  *Recorder
	namespace string

	mu      sync.Mutex
	changes []Change
	order   []types.UID       // in which objects were first seen
	current map[types.UID]int // index in changes of each existing object's last one
	changed chan struct{}
}

// End ends the log: what happens from now on is not in it.
func (l *Log) End() {
	h := l.recorder
	h.mu.Lock()
	defer h.mu.Unlock()
	others := slices.DeleteFunc(slices.Clone(h.logs[l.namespace]), func(other *Log) bool { return other == l })
	if h.logs[l.namespace] = others; len(others) == 0 {
		delete(h.logs, l.namespace)
	}
}

func (l *Log) add(c Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	uid := c.Object.GetUID()
	l.changes = append(l.changes, c)
	if c.Type == watch.Deleted {
		delete(l.current, uid)
	} else {
		if _, known := l.current[uid]; !known {
			l.order = append(l.order, uid)
		}
		l.current[uid] = len(l.changes) - 1
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Changes returns everything so far, in the order in which it was seen: that of one kind is exact.
func (l *Log) Changes() []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.changes)
}

// Changed is closed at the next change.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Current returns the objects that exist now, in the order in which they were first seen: that of one kind is the order of
// their creation.
func (l *Log) Current() []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Change, 0, len(l.current))
	for _, uid := range l.order {
		if i, exists := l.current[uid]; exists {
			all = append(all, l.changes[i])
		}
	}
	return all
}
