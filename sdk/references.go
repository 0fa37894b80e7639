package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// Ref reads an object that p.Object refers to, for example a Secret, by the name and namespace of like. The namespace
// defaults to that of p.Object if the kind is namespaced. From then on exactly that object is watched, until a reconcile no
// longer asks for it: a change of it causes a reconcile. A missing object is a [Wait] with reason ReferenceNotFound, to be
// returned by Reconcile.
func Ref[C client.Object, T Object](p *Pass[T], like C) (C, error) {
	empty := object.Empty(like)
	gvk, err := apiutil.GVKForObject(like, p.snapshot.kinds.scheme)
	if err != nil {
		return empty, fmt.Errorf("finding the kind of %T: %w", like, err)
	}
	p.snapshot.kinds.defaultNamespace(like, gvk, p.Object.GetNamespace())
	id := childID{gvk, client.ObjectKeyFromObject(like)}
	found, err := p.refs.one(id, empty)
	switch {
	case err != nil:
		return empty, err
	case found == nil && id.key.Namespace == "":
		return empty, Wait("ReferenceNotFound", "%s does not exist", id)
	case found == nil:
		return empty, Wait("ReferenceNotFound", "%s does not exist in namespace %s", id, id.key.Namespace)
	}
	live, ok := object.Copy(found).(C)
	if !ok {
		return empty, fmt.Errorf("reading %s: it is also read as a %T", id, found)
	}
	return live, nil
}

// target identifies a reference: one object or, without a name, the objects of one or all namespaces with these labels.
type target struct {
	childID
	labels string
}

// referenceReader gives a pass access to the references and records the used ones.
type referenceReader struct {
	// lookup returns the objects of the target, in any order. The objects are shared and read-only.
	lookup func(user types.NamespacedName, t target, like client.Object) ([]client.Object, error)
	// read reads the object in full into an object of its type, and reports whether it exists.
	read func(ctx context.Context, id childID, into client.Object) (bool, error)
	key  types.NamespacedName
	used map[target]struct{}
}

func (r *referenceReader) all(t target, like client.Object) ([]client.Object, error) {
	if r.used == nil {
		r.used = map[target]struct{}{}
	}
	r.used[t] = struct{}{}
	return r.lookup(r.key, t, like)
}

// one returns the object, or nil if it does not exist.
func (r *referenceReader) one(id childID, like client.Object) (client.Object, error) {
	found, err := r.all(target{childID: id}, like)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// errNotSynced means that a new reference has not been read yet.
var errNotSynced = errors.New("the reference is being read")

// references watches single objects and selections of objects on behalf of the objects that refer to them. It is safe for
// concurrent use.
type references struct {
	client client.WithWatch
	scheme *runtime.Scheme

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // it is the controller's context, and the watches end with it.
	queue   requestQueue
	watches map[target]*reference
	byUser  map[types.NamespacedName]map[target]struct{}
}

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// reference is the watch of one target.
type reference struct {
	store  toolscache.Store
	synced toolscache.InformerSynced
	cancel context.CancelFunc
	users  map[types.NamespacedName]struct{}
	err    error // of the last list request
}

func newReferences(mgr manager.Manager, c controller.Controller, scheme *runtime.Scheme) (*references, error) {
	watcher, err := client.NewWithWatch(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: scheme, Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("creating the client for references: %w", err)
	}
	r := &references{
		client: watcher, scheme: scheme, watches: map[target]*reference{},
		byUser: map[types.NamespacedName]map[target]struct{}{},
	}
	if err := c.Watch(r); err != nil {
		return nil, fmt.Errorf("setting up references: %w", err)
	}
	return r, nil
}

// Start implements source.Source.
func (r *references) Start(ctx context.Context, queue requestQueue) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx = ctx
	r.queue = queue
	return nil
}

// String returns the name of the source for the log.
func (*references) String() string { return "objects that are referred to" }

// get returns the objects of the target. The first call starts the watch and returns errNotSynced.
func (r *references) get(user types.NamespacedName, t target, like client.Object) ([]client.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref, ok := r.watches[t]
	if !ok {
		var err error
		if ref, err = r.startLocked(t, like); err != nil {
			return nil, err
		}
	}
	ref.users[user] = struct{}{}
	if r.byUser[user] == nil {
		r.byUser[user] = map[target]struct{}{}
	}
	r.byUser[user][t] = struct{}{}
	switch {
	case !ref.synced() && unknownKind(ref.err):
		return nil, kindNotInstalled(t.gvk, notInstalled)
	case !ref.synced() && ref.err != nil:
		return nil, fmt.Errorf("reading %s: %w", t, ref.err)
	case !ref.synced():
		return nil, errNotSynced
	}
	return ref.objects(), nil
}

// objects returns the objects in the store of the watch.
func (ref *reference) objects() []client.Object {
	var all []client.Object
	for _, x := range ref.store.List() {
		if o, ok := x.(client.Object); ok {
			all = append(all, o)
		}
	}
	return all
}

// watched reports whether the object is watched already.
func (r *references) watched(id childID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.watches[target{childID: id}]
	return ok
}

// retainOnly ends the watches that this user no longer uses.
func (r *references) retainOnly(user types.NamespacedName, used map[target]struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.byUser[user] {
		if _, ok := used[t]; ok {
			continue
		}
		delete(r.byUser[user], t)
		ref := r.watches[t]
		delete(ref.users, user)
		if len(ref.users) == 0 {
			ref.cancel()
			delete(r.watches, t)
		}
	}
	if len(r.byUser[user]) == 0 {
		delete(r.byUser, user)
	}
}

func (r *references) startLocked(t target, like client.Object) (*reference, error) {
	lister, err := r.listerWatcher(t, like)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.ctx)
	ref := &reference{cancel: cancel, users: map[types.NamespacedName]struct{}{}}
	enqueue := func() { r.enqueueUsers(t) }
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
		Transform:  cache.TransformStripManagedFields(),
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { enqueue() }, DeleteFunc: func(any) { enqueue() },
			UpdateFunc: func(old, now any) {
				if t.key.Name != "" || relevantVersion(old) != relevantVersion(now) {
					enqueue()
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

func (r *references) listed(ref *reference, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref.err = err
}

// enqueueUsers enqueues every object that refers to the target.
func (r *references) enqueueUsers(t target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref, ok := r.watches[t]
	if !ok {
		return
	}
	for user := range ref.users {
		r.queue.Add(reconcile.Request{NamespacedName: user})
	}
}

// lister lists and watches one target.
type lister struct {
	client  client.WithWatch
	newList func() client.ObjectList
	opts    []client.ListOption
}

func (r *references) listerWatcher(t target, like client.Object) (*lister, error) {
	newList, err := lists(r.scheme, t.gvk, like)
	if err != nil {
		return nil, err
	}
	opts, err := t.options()
	return &lister{client: r.client, newList: newList, opts: opts}, err
}

func (t target) options() ([]client.ListOption, error) {
	if t.key.Name != "" {
		return []client.ListOption{
			client.InNamespace(t.key.Namespace), client.MatchingFields{metav1.ObjectNameField: t.key.Name},
		}, nil
	}
	selector, err := labels.Parse(t.labels)
	if err != nil {
		return nil, fmt.Errorf("reading the labels of %s: %w", t, err)
	}
	return []client.ListOption{client.InNamespace(t.key.Namespace), client.MatchingLabelsSelector{Selector: selector}}, nil
}

func (t target) String() string {
	if t.key.Name != "" {
		return t.childID.String()
	}
	return "kind " + t.gvk.Kind
}

// lists returns a constructor of empty lists of that kind, for objects of like's type.
func lists(scheme *runtime.Scheme, gvk schema.GroupVersionKind, like client.Object) (func() client.ObjectList, error) {
	kind := gvk.GroupVersion().WithKind(gvk.Kind + "List")
	switch like.(type) {
	case *metav1.PartialObjectMetadata:
		return func() client.ObjectList { return ofKind(kind, &metav1.PartialObjectMetadataList{}) }, nil
	case *unstructured.Unstructured:
		return func() client.ObjectList { return ofKind(kind, &unstructured.UnstructuredList{}) }, nil
	}
	if o, err := scheme.New(kind); err != nil {
		return nil, fmt.Errorf("finding the list of kind %s: %w", gvk.Kind, err)
	} else if _, ok := o.(client.ObjectList); !ok {
		return nil, fmt.Errorf("%s is not a list", kind)
	}
	return func() client.ObjectList {
		o, _ := scheme.New(kind)
		list, _ := o.(client.ObjectList)
		return list
	}, nil
}

func ofKind(kind schema.GroupVersionKind, list client.ObjectList) client.ObjectList {
	list.GetObjectKind().SetGroupVersionKind(kind)
	return list
}

func (l *lister) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list := l.newList()
	return list, l.client.List(ctx, list, append(l.opts, &client.ListOptions{Raw: &o})...)
}

func (l *lister) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return l.client.Watch(ctx, l.newList(), append(l.opts, &client.ListOptions{Raw: &o})...)
}

// knownConflict returns the error for a known conflicting object, without a request, and keeps the watch of the object.
func (e *engine[T]) knownConflict(p *Pass[T], s *plannedChild, i *apply.Intent) error {
	if !e.references.watched(s.id()) {
		return nil
	}
	o, err := p.refs.one(s.id(), nil)
	switch {
	case errors.Is(err, errNotSynced):
		return err // it is being read; a failing attempt meanwhile would be polling
	case err != nil || o == nil:
		return nil //nolint:nilerr // without the permission to watch the object, the attempt to create it finds the conflict.
	case s.adoptable(o):
		return nil
	default:
		return i.CheckOwnership(o)
	}
}

// watchConflict makes the deletion of a conflicting object cause a reconcile.
func (e *engine[T]) watchConflict(p *Pass[T], s *plannedChild) {
	_, _ = p.refs.one(s.id(), e.cache.newResponse(s)) // the first call only starts the watch; a later reconcile reads it
}
