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

// view is what an operator sees of the cluster: informers, overlaid with the server's answers to its own writes that
// the informers have not delivered yet. Reading it makes no request and never blocks. It is safe for concurrent use.
type view struct {
	*kinds
	scopes map[string]*scope // by namespace; one entry "" if all namespaces are watched

	mu      sync.Mutex
	writes  map[types.UID]write
	byOwner map[types.UID]map[types.UID]struct{} // owner -> children with an entry in writes
	deleted map[types.UID]time.Time              // deleted by us, not yet seen to be going, and when
	swept   time.Time

	abandoned map[types.UID]time.Time // abandoned by us, not yet seen to be, and when
}

// write is the server's answer to the last write of one object.
type write struct {
	object client.Object
	gvk    schema.GroupVersionKind
	owner  types.UID // of the controller, "" for a primary
	at     time.Time
}

// overlayLimit drops an answer that no informer ever confirmed, for instance because the object lost the label by which
// it is watched, or because the informer was faster than the answer. It is far beyond any lag with which an operator could
// still be called live.
const overlayLimit = time.Minute

// newView creates the caches of an operator and adds them to the manager, which starts them.
func newView(mgr manager.Manager, k *kinds, namespaces []string) (*view, error) {
	v := &view{
		kinds: k, scopes: map[string]*scope{}, writes: map[types.UID]write{},
		byOwner: map[types.UID]map[types.UID]struct{}{}, deleted: map[types.UID]time.Time{}, swept: time.Now(),
		abandoned: map[types.UID]time.Time{},
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

func (v *view) informer(gvk schema.GroupVersionKind, namespace string) toolscache.SharedIndexInformer {
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

// load returns a copy of the primary object, or nil if it does not exist, and whether we let it go already and the
// informer only does not show it.
func (v *view) load(_ context.Context, key types.NamespacedName) (o client.Object, gone bool, err error) {
	informer := v.informer(v.primary, key.Namespace)
	if informer == nil {
		return nil, false, fmt.Errorf("reading %s: %w", key, errNotWatched)
	}
	// The lock keeps the end of an object that the informer still holds from being judged, which takes its mark away.
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
	if w, ok := v.writes[cached.GetUID()]; ok && newer(w.object.GetResourceVersion(), cached.GetResourceVersion()) {
		return object.Copy(w.object), false, nil
	}
	copied := object.Copy(cached)
	copied.GetObjectKind().SetGroupVersionKind(v.primary)
	return copied, false, nil
}

// storeKey is the key of informers' stores: "namespace/name", and "name" for cluster-scoped objects.
func storeKey(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

// snapshot collects the children of an object of that name: its own, and those of a former object of the same name.
func (v *view) snapshot(key types.NamespacedName, uid types.UID) *snapshot {
	s := newSnapshot(v.kinds)
	v.mu.Lock() // for the same reason as in load
	defer v.mu.Unlock()
	// What an informer has caught up with by now it shows below. Asked in the other order, an answer could be missed
	// that arrives in between.
	unseen := v.unseenLocked(uid)
	for _, scope := range v.scopes {
		for _, gvk := range v.owned {
			for _, o := range scope.of(gvk, key) {
				s.put(gvk, o, v.parentOf(o), uid)
			}
		}
		for _, gvk := range v.observed {
			s.observed[gvk] = append(s.observed[gvk], scope.of(gvk, key)...)
		}
	}
	s.pending = len(unseen) > 0
	for _, w := range unseen {
		s.put(w.gvk, w.object, v.parentOf(w.object), uid)
	}
	v.markDeletedLocked(s)
	return s
}

// of returns what the informer of a kind shows of the objects that belong to one of the operator's kind.
func (s *scope) of(gvk schema.GroupVersionKind, key types.NamespacedName) []client.Object {
	informer := s.informer(gvk)
	if informer == nil {
		return nil
	}
	items, _ := informer.GetIndexer().ByIndex(parentIndex, storeKey(key)) // which every informer made here has
	all := make([]client.Object, 0, len(items))
	for _, x := range items {
		if o, ok := x.(client.Object); ok {
			all = append(all, o)
		}
	}
	return all
}

// unseenLocked returns what we wrote and the informers do not show yet.
func (v *view) unseenLocked(owner types.UID) []write {
	var all []write
	for child := range v.byOwner[owner] {
		if w := v.writes[child]; time.Since(w.at) < overlayLimit && !v.seen(w) {
			all = append(all, w)
		}
	}
	return all
}

// markDeletedLocked marks the children that we deleted and that the informers do not show as going yet, and forgets of the
// others what the informers show.
func (v *view) markDeletedLocked(s *snapshot) {
	for id, o := range s.children {
		if isAbandoned(o.object) {
			delete(v.abandoned, o.object.GetUID())
		}
		if _, ok := v.deleted[o.object.GetUID()]; !ok {
			continue
		}
		if o.terminating {
			delete(v.deleted, o.object.GetUID())
			continue
		}
		o.terminating, s.pending = true, true
		s.children[id] = o
	}
}

// seen reports whether the informer has caught up with a write, be it that it shows the object or showed its end.
func (v *view) seen(w write) bool {
	informer := v.informer(w.gvk, w.object.GetNamespace())
	return informer == nil || !newer(w.object.GetResourceVersion(), informer.GetStore().LastStoreSyncResourceVersion())
}

// wrote records the server's answer to a write, so that reading the view never shows less than we know.
func (v *view) wrote(gvk schema.GroupVersionKind, owner types.UID, stored client.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.writes[stored.GetUID()] = write{object: v.shown(gvk, stored), gvk: gvk, owner: owner, at: time.Now()}
	v.sweepLocked()
	if owner == "" {
		return
	}
	if v.byOwner[owner] == nil {
		v.byOwner[owner] = map[types.UID]struct{}{}
	}
	v.byOwner[owner][stored.GetUID()] = struct{}{}
}

// deletes records that we deleted an object.
func (v *view) deletes(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.deleted[uid] = time.Now()
	v.sweepLocked()
}

// abandons records that we told an object not to wait for its grace period.
func (v *view) abandons(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.abandoned[uid] = time.Now()
}

// isAbandoned reports whether we did, and the informer does not show it yet.
func (v *view) isAbandoned(uid types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.abandoned[uid]
	return ok
}

// sweepLocked drops, now and then, what no informer will ever confirm.
func (v *view) sweepLocked() {
	if time.Since(v.swept) < overlayLimit {
		return
	}
	v.swept = time.Now()
	for uid, w := range v.writes {
		if time.Since(w.at) > overlayLimit {
			v.dropLocked(uid)
		}
	}
	old := func(_ types.UID, at time.Time) bool { return time.Since(at) > overlayLimit }
	maps.DeleteFunc(v.deleted, old)
	maps.DeleteFunc(v.abandoned, old)
}

func (v *view) dropLocked(uid types.UID) {
	owner := v.writes[uid].owner
	delete(v.writes, uid)
	delete(v.byOwner[owner], uid)
	if len(v.byOwner[owner]) == 0 {
		delete(v.byOwner, owner)
	}
}

// forget drops what is known of an object that is gone.
func (v *view) forget(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dropLocked(uid)
	delete(v.deleted, uid)
	delete(v.abandoned, uid)
}

// news drops the answers that an event confirms, and the events that tell nothing. Those of our own writes pass: whether
// there is anything to do is decided by what they lead to (see sight), because an event that is faster than the answer to
// our write cannot be told from somebody else's.
func (v *view) news() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e ctrlevent.CreateEvent) bool {
			v.confirm(e.Object)
			return true
		},
		UpdateFunc: func(e ctrlevent.UpdateEvent) bool {
			v.confirm(e.ObjectNew)
			return e.ObjectOld.GetResourceVersion() != e.ObjectNew.GetResourceVersion() // else a resync of the informer
		},
		DeleteFunc: func(e ctrlevent.DeleteEvent) bool {
			v.forget(e.Object.GetUID())
			return true
		},
	}
}

// confirm drops our answer if the informer shows the object as it left it, or as it was later.
func (v *view) confirm(o client.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if w, ok := v.writes[o.GetUID()]; ok && !newer(w.object.GetResourceVersion(), o.GetResourceVersion()) {
		v.dropLocked(o.GetUID())
	}
}

// newer reports whether resourceVersion a is newer than b. What cannot be compared is taken to be newer, so that doubt
// keeps an answer that we are sure of.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
