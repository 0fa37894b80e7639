package sdk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// readCache is the read-your-writes cache of an operator: informers, with an overlay of responses to the operator's own
// writes that the informers have not delivered yet. A read makes no request and never blocks. It is safe for concurrent use.
type readCache struct {
	*kinds
	scopes map[string]*scope // by namespace; one entry "" if all namespaces are watched

	mu         sync.Mutex
	overlay    map[types.UID]overlayEntry
	byOwner    map[types.UID]map[types.UID]struct{} // owner -> children in overlay
	deleted    map[types.UID]time.Time              // deletion times of objects not observed as terminating yet
	lastExpiry time.Time

	forceDeleted map[types.UID]time.Time // force deletions not observed yet, and their times
}

// overlayEntry is the API server's response to the last write of one object.
type overlayEntry struct {
	object client.Object
	gvk    schema.GroupVersionKind
	owner  types.UID // of the controller, "" for a primary
	at     time.Time
}

// overlayLimit is the age at which an entry is dropped that no informer confirmed. The object may have lost the label that
// selects it, or the event may have arrived before the response. It is far beyond the lag of a working informer.
const overlayLimit = time.Minute

// newReadCache creates the caches of an operator and adds them to the manager, which starts them.
func newReadCache(mgr manager.Manager, k *kinds, namespaces []string) (*readCache, error) {
	v := &readCache{
		kinds: k, scopes: map[string]*scope{}, overlay: map[types.UID]overlayEntry{},
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

func (v *readCache) informer(gvk schema.GroupVersionKind, namespace string) toolscache.SharedIndexInformer {
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

// load returns a copy of the primary object, or nil if it does not exist. gone means that we removed its last finalizer and
// the informer has not received its deletion.
func (v *readCache) load(_ context.Context, key types.NamespacedName) (o client.Object, gone bool, err error) {
	informer := v.informer(v.primary, key.Namespace)
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
	copied.GetObjectKind().SetGroupVersionKind(v.primary)
	return copied, false, nil
}

// storeKey returns the key in an informer's store: "namespace/name", and "name" for cluster-scoped objects.
func storeKey(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

// snapshot returns the children of the object with that name: its own, and those of its predecessors.
func (v *readCache) snapshot(key types.NamespacedName, uid types.UID) *snapshot {
	s := newSnapshot(v.kinds)
	v.mu.Lock() // for the same reason as in load
	defer v.mu.Unlock()
	// The overlay is read before the informers. In the other order a response that arrives in between could be missed.
	pending := v.pendingLocked(uid)
	for _, scope := range v.scopes {
		for _, gvk := range v.owned {
			for _, o := range scope.childrenOf(gvk, key) {
				s.add(gvk, o, v.parentOf(o), uid)
			}
		}
		for _, gvk := range v.observed {
			s.observed[gvk] = append(s.observed[gvk], scope.childrenOf(gvk, key)...)
		}
	}
	s.pending = len(pending) > 0
	for _, w := range pending {
		s.add(w.gvk, w.object, v.parentOf(w.object), uid)
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

// pendingLocked returns the overlay entries that the informers do not show yet.
func (v *readCache) pendingLocked(owner types.UID) []overlayEntry {
	var all []overlayEntry
	for child := range v.byOwner[owner] {
		if w := v.overlay[child]; time.Since(w.at) < overlayLimit && !v.caughtUp(w) {
			all = append(all, w)
		}
	}
	return all
}

// markDeletedLocked marks the children that we deleted and that the informers do not show as terminating yet, and drops the
// marks that the informers confirm.
func (v *readCache) markDeletedLocked(s *snapshot) {
	for id, o := range s.children {
		if isForceDeleted(o.object) {
			delete(v.forceDeleted, o.object.GetUID())
		}
		if _, ok := v.deleted[o.object.GetUID()]; !ok {
			continue
		}
		if o.terminating {
			delete(v.deleted, o.object.GetUID())
			continue
		}
		o.terminating = true
		s.pending = true
		s.children[id] = o
	}
}

// caughtUp reports whether the informer has caught up with a write, whether the object still exists or not.
func (v *readCache) caughtUp(w overlayEntry) bool {
	informer := v.informer(w.gvk, w.object.GetNamespace())
	return informer == nil || !newer(w.object.GetResourceVersion(), informer.GetStore().LastStoreSyncResourceVersion())
}

// recordWrite records the response to a write, so that a later read is never older.
func (v *readCache) recordWrite(gvk schema.GroupVersionKind, owner types.UID, stored client.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.overlay[stored.GetUID()] = overlayEntry{object: v.asCached(gvk, stored), gvk: gvk, owner: owner, at: time.Now()}
	v.expireLocked()
	if owner == "" {
		return
	}
	if v.byOwner[owner] == nil {
		v.byOwner[owner] = map[types.UID]struct{}{}
	}
	v.byOwner[owner][stored.GetUID()] = struct{}{}
}

// recordDeletion records our deletion of an object.
func (v *readCache) recordDeletion(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.deleted[uid] = time.Now()
	v.expireLocked()
}

// recordForceDeletion records our deletion of an object with a grace period of zero.
func (v *readCache) recordForceDeletion(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forceDeleted[uid] = time.Now()
}

// isForceDeleted reports whether we force deleted the object and the informer does not show it yet.
func (v *readCache) isForceDeleted(uid types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.forceDeleted[uid]
	return ok
}

// expireLocked drops entries that no informer will ever confirm. It runs at most once per overlayLimit.
func (v *readCache) expireLocked() {
	if time.Since(v.lastExpiry) < overlayLimit {
		return
	}
	v.lastExpiry = time.Now()
	for uid, w := range v.overlay {
		if time.Since(w.at) > overlayLimit {
			v.dropLocked(uid)
		}
	}
	expired := func(_ types.UID, at time.Time) bool { return time.Since(at) > overlayLimit }
	maps.DeleteFunc(v.deleted, expired)
	maps.DeleteFunc(v.forceDeleted, expired)
}

func (v *readCache) dropLocked(uid types.UID) {
	owner := v.overlay[uid].owner
	delete(v.overlay, uid)
	delete(v.byOwner[owner], uid)
	if len(v.byOwner[owner]) == 0 {
		delete(v.byOwner, owner)
	}
}

// forget drops all entries of a deleted object.
func (v *readCache) forget(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dropLocked(uid)
	delete(v.deleted, uid)
	delete(v.forceDeleted, uid)
}

// changePredicate evicts overlay entries that the informer has caught up with and filters resyncs. Events of our own writes
// pass: an event that arrives before the response to our write looks like one of another client. The fingerprint of the
// observed state decides whether there is work to do.
func (v *readCache) changePredicate() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e ctrlevent.CreateEvent) bool {
			v.dropConfirmed(e.Object)
			return true
		},
		UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
			v.dropConfirmed(e.ObjectNew)
			return e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() // false for a resync of the informer
		},
		DeleteFunc: func(e ctrlevent.DeleteEvent) bool {
			v.forget(e.Object.GetUID())
			return true
		},
	}
}

// dropConfirmed drops the overlay entry if the informer shows the object in that version or a later one.
func (v *readCache) dropConfirmed(o client.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if w, ok := v.overlay[o.GetUID()]; ok && !newer(w.object.GetResourceVersion(), o.GetResourceVersion()) {
		v.dropLocked(o.GetUID())
	}
}

// newer reports whether resourceVersion a is newer than b. Incomparable versions count as newer, so that an entry is kept in
// case of doubt.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
