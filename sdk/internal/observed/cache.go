package observed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// Cache is the read-your-writes cache of an operator: informers, with an overlay of responses to the operator's own
// writes that the informers have not delivered yet. A read makes no request and never blocks. It is safe for concurrent use.
type Cache struct {
	*Kinds
	scopes map[string]*scope // by namespace; one entry "" if all namespaces are watched

	mu         sync.Mutex
	overlay    map[types.UID]overlayEntry
	byOwner    map[types.UID]map[types.UID]struct{} // owner -> children in overlay
	deleted    map[types.UID]time.Time              // deletion times of objects not observed as terminating yet
	lastExpiry time.Time

	forceDeleted map[types.UID]time.Time // force deletions not observed yet, and their times
}

// NewCache creates the caches of an operator and adds them to the manager, which starts them.
func NewCache(mgr manager.Manager, k *Kinds, namespaces []string) (*Cache, error) {
	v := &Cache{
		Kinds: k, scopes: map[string]*scope{}, overlay: map[types.UID]overlayEntry{},
		byOwner: map[types.UID]map[types.UID]struct{}{}, deleted: map[types.UID]time.Time{}, lastExpiry: time.Now(),
		forceDeleted: map[types.UID]time.Time{},
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		var err error
		if v.scopes[namespace], err = v.newScope(mgr, namespace); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (v *Cache) informer(gvk schema.GroupVersionKind, namespace string) toolscache.SharedIndexInformer {
	s := v.scope(namespace)
	if s == nil {
		return nil
	}
	return s.informer(gvk)
}

func (s *scope) informer(gvk schema.GroupVersionKind) toolscache.SharedIndexInformer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.informers[gvk]
}

var errNotWatched = errors.New("the namespace is not watched")

// Load returns a copy of the primary object, or nil if it does not exist. gone means that we removed its last finalizer and
// the informer has not received its deletion.
func (v *Cache) Load(_ context.Context, key types.NamespacedName) (o client.Object, gone bool, err error) {
	informer := v.informer(v.Primary, key.Namespace)
	if informer == nil {
		return nil, false, fmt.Errorf("reading %s: %w", key, errNotWatched)
	}
	// The lock keeps an event of the deletion, which removes the mark in deleted, from being handled during this read.
	v.mu.Lock()
	defer v.mu.Unlock()
	x, exists, err := informer.GetIndexer().GetByKey(storeKey(key))
	if err != nil || !exists {
		return nil, false, err
	}
	cached, ok := x.(client.Object)
	if !ok {
		return nil, false, fmt.Errorf("reading %s: the cache holds a %T", key, x)
	}
	if _, gone := v.deleted[cached.GetUID()]; gone {
		return cached, true, nil
	}
	if w, ok := v.overlay[cached.GetUID()]; ok && newer(w.object.GetResourceVersion(), cached.GetResourceVersion()) {
		return object.Copy(w.object), false, nil
	}
	copied := object.Copy(cached)
	copied.GetObjectKind().SetGroupVersionKind(v.Primary)
	return copied, false, nil
}

// storeKey returns the key in an informer's store: "namespace/name", and "name" for cluster-scoped objects.
func storeKey(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

// Snapshot returns the children of the object with that name: its own, and those of its predecessors.
func (v *Cache) Snapshot(key types.NamespacedName, uid types.UID) *Snapshot {
	s := NewSnapshot(v.Kinds)
	v.mu.Lock() // for the same reason as in load
	defer v.mu.Unlock()
	// The overlay is read before the informers. In the other order a response that arrives in between could be missed.
	pending := v.pendingLocked(uid)
	for _, scope := range v.scopes {
		for _, gvk := range v.Owned {
			for _, o := range scope.childrenOf(gvk, key) {
				s.Add(gvk, o, v.ParentOf(o), uid)
			}
		}
		for _, gvk := range v.Observed {
			s.Observed[gvk] = append(s.Observed[gvk], scope.childrenOf(gvk, key)...)
		}
	}
	s.pending = len(pending) > 0
	for _, w := range pending {
		s.Add(w.gvk, w.object, v.ParentOf(w.object), uid)
	}
	v.markDeletedLocked(s)
	return s
}

// childrenOf returns the cached objects of a kind that belong to one object of the operator's kind.
func (s *scope) childrenOf(gvk schema.GroupVersionKind, key types.NamespacedName) []client.Object {
	informer := s.informer(gvk)
	if informer == nil {
		return nil
	}
	items, _ := informer.GetIndexer().ByIndex(parentIndex, storeKey(key)) // every informer of this package has the index
	all := make([]client.Object, 0, len(items))
	for _, x := range items {
		if o, ok := x.(client.Object); ok {
			all = append(all, o)
		}
	}
	return all
}

// newer reports whether resourceVersion a is newer than b. Incomparable versions count as newer, so that an entry is kept in
// case of doubt.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
