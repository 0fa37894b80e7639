// Package history watches every object in some namespaces, regardless of its writer, and records each state.
//
// One set of watches serves any number of namespaces, so another namespace costs nothing.
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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Change is a new state of an object.
type Change struct {
	// At is the time of the watch event, some milliseconds after the change.
	At time.Time
	// Type is ADDED, MODIFIED or DELETED.
	Type watch.EventType
	// Resource is the resource of the object.
	Resource schema.GroupVersionResource
	// Object is the new state, or the last one before the deletion. It is shared and must not be changed.
	Object *unstructured.Unstructured
}

// A Recorder watches one API server for all its users with the same types. It is safe for concurrent use.
type Recorder struct {
	cfg    *rest.Config
	scheme *runtime.Scheme
	key    recorderKey
	client dynamic.Interface
	ctx    context.Context //nolint:containedctx // parent of the watches, which begin at different times
	cancel context.CancelFunc
	done   sync.WaitGroup
	refs   int // guarded by recorders.mu

	extending     sync.Mutex
	clusterScoped bool // cluster-scoped kinds are watched; guarded by extending

	mu      sync.Mutex
	watches map[schema.GroupVersionResource]kindWatch
	logs    map[string][]*Log // by namespace; "" has all
	// followers has the first namespace of each log that follows the cluster or has followed it.
	followers []string
}

type kindWatch struct {
	synced  cache.InformerSynced // true as well if the watch is rejected
	refused *atomic.Bool
	cancel  context.CancelFunc
}

// recorders holds the recorders of this process. Each event is decoded once for all users, so a shared set of watches
// costs a fraction of one set per test.
var recorders struct {
	mu    sync.Mutex
	byKey map[recorderKey]*Recorder
}

type recorderKey struct{ host, customTypes string }

// Acquire returns the recorder of an API server for the types of a scheme, and starts it if this process has none. It
// watches all kinds of namespaced objects that exist at the time of the call, and on request the cluster-scoped kinds, each
// in the version that the API server prefers of those in the scheme, or of all if the scheme has none of them. A nil scheme
// has the built-in types. Each call requires one of Release. ctx limits the wait only.
func Acquire(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme, clusterScoped bool) (*Recorder, error) {
	if scheme == nil {
		scheme = builtIn
	}
	h, err := acquire(ctx, cfg, scheme)
	if err != nil {
		return nil, fmt.Errorf("watching all objects: %w", err)
	}
	if err := h.extend(ctx, clusterScoped); err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
}

func acquire(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme) (*Recorder, error) {
	key := recorderKey{cfg.Host, customTypes(scheme)}
	recorders.mu.Lock()
	defer recorders.mu.Unlock()
	if h := recorders.byKey[key]; h != nil {
		h.refs++
		return h, nil
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	h := &Recorder{
		cfg: cfg, scheme: scheme, key: key, client: client, refs: 1,
		watches: map[schema.GroupVersionResource]kindWatch{}, logs: map[string][]*Log{},
	}
	// Drops log messages about watches that end because they are stopped
	h.ctx, h.cancel = context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard()))
	if recorders.byKey == nil {
		recorders.byKey = map[recorderKey]*Recorder{}
	}
	recorders.byKey[key] = h
	return h, nil
}

// Release ends the watches after the last user.
func (r *Recorder) Release() {
	recorders.mu.Lock()
	r.refs--
	last := r.refs == 0
	if last {
		delete(recorders.byKey, r.key)
	}
	recorders.mu.Unlock()
	if last {
		r.cancel()
		r.done.Wait()
	}
}

// extend adds watches for new kinds, and waits until all are in sync.
func (r *Recorder) extend(ctx context.Context, clusterScoped bool) error {
	r.extending.Lock()
	defer r.extending.Unlock()
	r.clusterScoped = r.clusterScoped || clusterScoped
	kinds, complete, err := watchable(r.cfg, r.scheme, r.clusterScoped)
	if err != nil {
		return err
	}
	for _, synced := range r.update(kinds, complete) {
		for !synced() {
			select {
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("watching all objects: %w", ctx.Err())
			}
		}
	}
	return nil
}

// update begins the watches of new kinds and, if the list is complete, ends those of removed kinds. It returns the sync
// state of each.
func (r *Recorder) update(kinds []schema.GroupVersionResource, complete bool) []cache.InformerSynced {
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind, w := range r.watches {
		if complete && !slices.Contains(kinds, kind) { // a kind that is added again needs a new watch
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

// Follows reports whether a resource is watched and the API server allows it.
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

// follow watches one kind until ctx ends. The API server ends the watch of a slow client, and may have dropped later
// events by then. An informer lists again in this case, so a state may be missed, but never the current one. A rejected
// kind counts as synced, because no user of the recorder can see it.
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
				return list, err
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
				case a.GetUID() != b.GetUID(): // a new object of the same name: the deletion of the first was missed
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
	logs := r.logsOf(u.GetNamespace())
	r.mu.Unlock()
	for _, l := range logs {
		l.add(Change{At: time.Now(), Type: t, Resource: kind, Object: u})
	}
}

// Follow begins the log of a namespace. Its present content is not recorded.
func (r *Recorder) Follow(namespace string) *Log {
	l := &Log{
		Began: time.Now(), recorder: r, namespace: namespace, current: map[types.UID]int{}, changed: make(chan struct{}),
		unclaimed: map[types.UID][]Change{},
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs[namespace] = append(slices.Clip(r.logs[namespace]), l)
	r.logs[""] = append(slices.Clip(r.logs[""]), l)
	return l
}

// Log is the history of one namespace, and of the cluster-scoped objects if the recorder watches these. It is safe for
// concurrent use.
type Log struct {
	// Began is the begin of the log.
	Began time.Time

	recorder  *Recorder
	namespace string // the first of its namespaces
	further   bool   // it has the namespaces that belong to it; guarded by recorder.mu

	mu        sync.Mutex
	unclaimed map[types.UID][]Change // cluster-scoped objects; nil for those of the log
	changes   []Change
	order     []types.UID       // UIDs in the order of their first change
	current   map[types.UID]int // index in changes of the last state of each existing object
	changed   chan struct{}
}

// End ends the log. Later changes are not recorded.
func (l *Log) End() {
	r := l.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, namespace := range []string{l.namespace, ""} {
		others := slices.DeleteFunc(slices.Clone(r.logs[namespace]), func(other *Log) bool { return other == l })
		if r.logs[namespace] = others; len(others) == 0 {
			delete(r.logs, namespace)
		}
	}
}

func (l *Log) add(c Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Object.GetNamespace() == "" && !l.isClaimed(c.Object.GetUID()) {
		l.unclaimed[c.Object.GetUID()] = append(l.unclaimed[c.Object.GetUID()], c)
		return
	}
	l.append(c)
}

// append adds a change. The caller holds l.mu.
func (l *Log) append(c Change) {
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

// Changes returns all changes so far, in the order of their watch events. The order is exact within one kind.
func (l *Log) Changes() []Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.changes)
}

// Changed returns a channel that is closed at the next change.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// CurrentObjects returns the existing objects in the order of their first watch event. Within one kind, this is the order of
// creation.
func (l *Log) CurrentObjects() []Change {
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
