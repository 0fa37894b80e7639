package observed

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// overlayEntry is the API server's response to the last write of one object.
type overlayEntry struct {
	object client.Object
	gvk    schema.GroupVersionKind
	owner  types.UID // of the controller, "" for a primary
	at     time.Time
}

// overlayMaxAge is the age at which an entry is dropped that no informer confirmed. The object may have lost the label that
// selects it, or the event may have arrived before the response. It is far beyond the lag of a working informer.
const overlayMaxAge = time.Minute

// pendingLocked returns the overlay entries that the informers do not show yet.
func (v *Cache) pendingLocked(owner types.UID) []overlayEntry {
	var all []overlayEntry
	for child := range v.byOwner[owner] {
		if w := v.overlay[child]; time.Since(w.at) < overlayMaxAge && !v.caughtUp(w) {
			all = append(all, w)
		}
	}
	return all
}

// markDeletedLocked marks the children that we deleted and that the informers do not show as terminating yet, and drops the
// marks that the informers confirm.
func (v *Cache) markDeletedLocked(s *Snapshot) {
	for id, o := range s.Children {
		if IsForceDeleted(o.Object) {
			delete(v.forceDeleted, o.Object.GetUID())
		}
		if _, ok := v.deleted[o.Object.GetUID()]; !ok {
			continue
		}
		if o.Terminating {
			delete(v.deleted, o.Object.GetUID())
			continue
		}
		o.Terminating = true
		s.pending = true
		s.Children[id] = o
	}
}

// caughtUp reports whether the informer has caught up with a write, whether the object still exists or not.
func (v *Cache) caughtUp(w overlayEntry) bool {
	informer := v.informer(w.gvk, w.object.GetNamespace())
	return informer == nil || !newer(w.object.GetResourceVersion(), informer.GetStore().LastStoreSyncResourceVersion())
}

// RecordWrite records the response to a write, so that a later read is never older.
func (v *Cache) RecordWrite(gvk schema.GroupVersionKind, owner types.UID, stored client.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.overlay[stored.GetUID()] = overlayEntry{object: v.AsCached(gvk, stored), gvk: gvk, owner: owner, at: time.Now()}
	v.expireLocked()
	if owner == "" {
		return
	}
	if v.byOwner[owner] == nil {
		v.byOwner[owner] = map[types.UID]struct{}{}
	}
	v.byOwner[owner][stored.GetUID()] = struct{}{}
}

// RecordDeletion records our deletion of an object.
func (v *Cache) RecordDeletion(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.deleted[uid] = time.Now()
	v.expireLocked()
}

// RecordForceDeletion records our deletion of an object with a grace period of zero.
func (v *Cache) RecordForceDeletion(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forceDeleted[uid] = time.Now()
	v.expireLocked()
}

// IsForceDeleted reports whether we force deleted the object and the informer does not show it yet.
func (v *Cache) IsForceDeleted(uid types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.forceDeleted[uid]
	return ok
}

// expireLocked drops entries that no informer will ever confirm. It runs at most once per overlayMaxAge.
func (v *Cache) expireLocked() {
	if time.Since(v.lastExpiry) < overlayMaxAge {
		return
	}
	v.lastExpiry = time.Now()
	for uid, w := range v.overlay {
		if time.Since(w.at) > overlayMaxAge {
			v.dropLocked(uid)
		}
	}
	expired := func(_ types.UID, at time.Time) bool { return time.Since(at) > overlayMaxAge }
	maps.DeleteFunc(v.deleted, expired)
	maps.DeleteFunc(v.forceDeleted, expired)
}

func (v *Cache) dropLocked(uid types.UID) {
	owner := v.overlay[uid].owner
	delete(v.overlay, uid)
	delete(v.byOwner[owner], uid)
	if len(v.byOwner[owner]) == 0 {
		delete(v.byOwner, owner)
	}
}

// Forget drops the entries of a deleted object. The record of a force deletion expires instead: a reconcile may still work
// with a snapshot that has the object, and would delete it again.
func (v *Cache) Forget(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dropLocked(uid)
	delete(v.deleted, uid)
}

// changePredicate evicts overlay entries that the informer has caught up with and filters resyncs. Events of our own writes
// pass: an event that arrives before the response to our write looks like one of another client. The fingerprint of the
// observed state decides whether there is work to do.
func (v *Cache) changePredicate() predicate.Predicate {
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
			v.Forget(e.Object.GetUID())
			return true
		},
	}
}

// dropConfirmed drops the overlay entry if the informer shows the object in that version or a later one.
func (v *Cache) dropConfirmed(o client.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if w, ok := v.overlay[o.GetUID()]; ok && !newer(w.object.GetResourceVersion(), o.GetResourceVersion()) {
		v.dropLocked(o.GetUID())
	}
}

// IsForceDeleted reports whether the object was deleted with a grace period of zero, so that only finalizers keep it.
func IsForceDeleted(o client.Object) bool {
	grace := o.GetDeletionGracePeriodSeconds()
	return grace != nil && *grace == 0
}
