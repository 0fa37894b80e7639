package reference

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/retry"
)

// Watches watches single objects and selections of objects on behalf of the objects that refer to them. It is safe for
// concurrent use.
type Watches struct {
	client client.WithWatch
	scheme *runtime.Scheme

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // it is the controller's context, and the watches end with it.
	queue   requestQueue
	watches map[Target]*reference
	byUser  map[types.NamespacedName]map[Target]struct{}
}

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// reference is the watch of one target.
type reference struct {
	store  toolscache.Store
	synced toolscache.InformerSynced
	cancel context.CancelFunc
	users  map[types.NamespacedName]selections
	err    error // of the last list request
}

// New returns the watches of a controller. They start with the controller.
func New(mgr manager.Manager, c controller.Controller, scheme *runtime.Scheme) (*Watches, error) {
	watcher, err := client.NewWithWatch(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: scheme, Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("creating the client for references: %w", err)
	}
	r := &Watches{
		client: watcher, scheme: scheme, watches: map[Target]*reference{},
		byUser: map[types.NamespacedName]map[Target]struct{}{},
	}
	if err := c.Watch(r); err != nil {
		return nil, fmt.Errorf("setting up references: %w", err)
	}
	return r, nil
}

// Start implements source.Source.
func (r *Watches) Start(ctx context.Context, queue requestQueue) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx = ctx
	r.queue = queue
	return nil
}

// String returns the name of the source for the log.
func (*Watches) String() string { return "objects that are referred to" }

// Get returns the objects of the target. The first call starts the watch and returns retry.ErrNotSynced.
func (r *Watches) Get(user types.NamespacedName, t Target, like client.Object) ([]client.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref, ok := r.watches[t.watchKey()]
	if !ok {
		var err error
		if ref, err = r.startLocked(t.watchKey(), like); err != nil {
			return nil, err
		}
	}
	selected, err := ref.use(user, t)
	if err != nil {
		return nil, err
	}
	if r.byUser[user] == nil {
		r.byUser[user] = map[Target]struct{}{}
	}
	r.byUser[user][t] = struct{}{}
	switch {
	case !ref.synced() && retry.IsUnknownKind(ref.err):
		return nil, retry.KindNotInstalled(t.GVK, retry.NotInstalled)
	case !ref.synced() && ref.err != nil:
		return nil, fmt.Errorf("reading %s: %w", t.seenFrom(user.Namespace), ref.err)
	case !ref.synced():
		return nil, retry.ErrNotSynced
	}
	return ref.objects(selected), nil
}

// objects returns the selected objects in the store of the watch.
func (ref *reference) objects(selected labels.Selector) []client.Object {
	var all []client.Object
	for _, x := range ref.store.List() {
		if o, ok := x.(client.Object); ok && selected.Matches(labels.Set(o.GetLabels())) {
			all = append(all, o)
		}
	}
	return all
}

// Watched reports whether the object is watched already in the form of like.
func (r *Watches) Watched(id object.ID, like client.Object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.watches[Target{ID: id, Form: FormOf(like)}]
	return ok
}

// RetainOnly ends the watches that this user no longer uses.
func (r *Watches) RetainOnly(user types.NamespacedName, used map[Target]struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.byUser[user] {
		if _, ok := used[t]; ok {
			continue
		}
		delete(r.byUser[user], t)
		ref := r.watches[t.watchKey()]
		delete(ref.users[user], t)
		if len(ref.users[user]) == 0 {
			delete(ref.users, user)
		}
		if len(ref.users) == 0 {
			ref.cancel()
			delete(r.watches, t.watchKey())
		}
	}
	if len(r.byUser[user]) == 0 {
		delete(r.byUser, user)
	}
}

func (r *Watches) startLocked(t Target, like client.Object) (*reference, error) {
	lister, err := r.listerWatcher(t, like)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.ctx)
	ref := &reference{cancel: cancel, users: map[types.NamespacedName]selections{}}
	enqueue := func(changed ...any) { r.enqueueUsers(t, changed...) }
	store, informer := toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				list, err := lister.list(ctx, o)
				r.listed(ref, err)
				return list, err
			},
			WatchFuncWithContext: lister.watch,
		},
		ObjectType: like,
		Transform:  t.transform(),
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { enqueue(o) }, DeleteFunc: func(o any) { enqueue(o) },
			UpdateFunc: func(old, now any) {
				if t.Key.Name != "" || relevantVersion(old) != relevantVersion(now) {
					enqueue(old, now)
				}
			},
		},
	})
	ref.store = store
	ref.synced = informer.HasSynced
	r.watches[t] = ref
	go informer.RunWithContext(ctx)
	go func() {
		if toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			enqueue() // there is no event if the object does not exist
		}
	}()
	return ref, nil
}

func (r *Watches) listed(ref *reference, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref.err = err
}

// enqueueUsers enqueues every object that refers to the target. Of the users of a shared watch it enqueues only those that
// select one of the changed objects.
func (r *Watches) enqueueUsers(t Target, changed ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref, ok := r.watches[t]
	if !ok {
		return
	}
	for user, selected := range ref.users {
		if len(changed) == 0 || selected.matchAny(changed) {
			r.queue.Add(reconcile.Request{NamespacedName: user})
		}
	}
}
