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

// Historian watches. It is safe for concurrent use.
type Historian struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	kinds  []schema.GroupVersionResource

	mu   sync.Mutex
	logs map[string]*Log
}

// Start watches all kinds of namespaced objects that the API server has now, until Stop.
func Start(ctx context.Context, cfg *rest.Config) (*Historian, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("watching all objects: %w", err)
	}
	kinds, err := watchable(cfg)
	if err != nil {
		return nil, err
	}
	// That watches break off when they are stopped is no news.
	ended := ctx.Done()
	ctx, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	h := &Historian{cancel: cancel, kinds: kinds, logs: map[string]*Log{}}
	synced := make([]cache.InformerSynced, 0, len(kinds))
	for _, kind := range kinds {
		synced = append(synced, h.follow(ctx, client.Resource(kind), kind))
	}
	for slices.ContainsFunc(synced, func(is cache.InformerSynced) bool { return !is() }) {
		select {
		case <-time.After(5 * time.Millisecond): //nolint:mnd // they are there in a few of these
		case <-ended:
			h.Stop()
			return nil, fmt.Errorf("watching all objects: %w", context.Canceled)
		}
	}
	return h, nil
}

// watchable lists the kinds of namespaced objects that can be watched.
func watchable(cfg *rest.Config) ([]schema.GroupVersionResource, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("asking for the API server's kinds: %w", err)
	}
	lists, err := client.ServerPreferredNamespacedResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("asking for the API server's kinds: %w", err)
	}
	var kinds []schema.GroupVersionResource
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
	return kinds, nil
}

// follow watches one kind until ctx ends. The API server ends a watch whose client is too slow for it, and may have
// forgotten by then what came next: an informer lists everything then, so that a state may be missed and never what is
// there. A kind that may not be seen counts as synced, for whoever may not see it does without it.
func (h *Historian) follow(
	ctx context.Context, client dynamic.NamespaceableResourceInterface, kind schema.GroupVersionResource,
) cache.InformerSynced {
	var refused atomic.Bool
	told := func(t watch.EventType) func(any) {
		return func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			if u, ok := obj.(*unstructured.Unstructured); ok {
				h.tell(kind, t, u)
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
	h.done.Go(func() { informer.RunWithContext(ctx) })
	return func() bool { return refused.Load() || informer.HasSynced() }
}

func (h *Historian) tell(kind schema.GroupVersionResource, t watch.EventType, u *unstructured.Unstructured) {
	h.mu.Lock()
	l := h.logs[u.GetNamespace()]
	h.mu.Unlock()
	if l != nil {
		l.add(Change{At: time.Now(), Type: t, Resource: kind, Object: u})
	}
}

// Kinds are what is watched.
func (h *Historian) Kinds() []schema.GroupVersionResource { return slices.Clone(h.kinds) }

// Stop ends all watches.
func (h *Historian) Stop() {
	h.cancel()
	h.done.Wait()
}

// Follow begins the log of a namespace. What is in it already is not told.
func (h *Historian) Follow(namespace string) *Log {
	l := &Log{Began: time.Now(), current: map[types.UID]int{}, changed: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.logs[namespace] = l
	return l
}

// Leave ends the log of a namespace.
func (h *Historian) Leave(namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.logs, namespace)
}

// Log is the history of one namespace. It is safe for concurrent use.
type Log struct {
	// Began is when it was begun.
	Began time.Time

	mu      sync.Mutex
	changes []Change
	order   []types.UID       // in which objects were first seen
	current map[types.UID]int // index in changes of each existing object's last one
	changed chan struct{}
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
