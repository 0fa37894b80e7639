package sdk

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fingerprint is a hash of the versions of all objects that a reconcile reads: the object, its children and its references.
// Equal fingerprints lead to equal reconciles, except for the time. Comparing them filters events of our own writes and
// several events of one change, and so skips reconciles without work.
type fingerprint uint64

var fingerprintSeed = maphash.MakeSeed()

// objectVersion is the part of a fingerprint that one object contributes.
type objectVersion struct {
	id          childID
	uid         types.UID
	version     string
	terminating bool
}

// add adds an object version. The sum does not depend on the order.
func (s fingerprint) add(g objectVersion) fingerprint {
	return s + fingerprint(maphash.Comparable(fingerprintSeed, g))
}

func (s *snapshot) fingerprint(o client.Object) fingerprint {
	all := fingerprint(0).add(objectVersion{version: strconv.FormatInt(s.installedKinds, 10)})
	all = all.add(objectVersion{uid: o.GetUID(), version: o.GetResourceVersion()})
	for _, objects := range []map[childID]observedChild{s.children, s.predecessors} {
		for id, seen := range objects {
			all = all.add(objectVersion{id, seen.object.GetUID(), seen.object.GetResourceVersion(), seen.terminating})
		}
	}
	for _, objects := range s.observed {
		for _, o := range objects {
			all = all.add(objectVersion{uid: o.GetUID(), version: o.GetResourceVersion()})
		}
	}
	return all
}

// fingerprint returns the fingerprint of the references of that object.
func (r *references) fingerprint(user types.NamespacedName) fingerprint {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all fingerprint
	for t := range r.byUser[user] {
		ref := r.watches[t]
		if !ref.synced() {
			continue
		}
		all = all.add(objectVersion{id: t.childID, version: "read"})
		for _, o := range ref.objects() {
			v := objectVersion{id: childID{t.gvk, client.ObjectKeyFromObject(o)}, uid: o.GetUID(), version: o.GetResourceVersion()}
			if t.key.Name == "" {
				v.version = relevantVersion(o)
			}
			all = all.add(v)
		}
	}
	return all
}

// relevantVersion identifies the part of a selected object that its users depend on. Status-only changes do not count: they
// are frequent, and only the object's own controller needs them.
func relevantVersion(x any) string {
	o, ok := x.(client.Object)
	switch {
	case !ok:
		return ""
	case o.GetGeneration() == 0:
		return o.GetResourceVersion()
	}
	terminating := o.GetDeletionTimestamp() != nil
	// Sprint prints maps in the order of their keys.
	return fmt.Sprint(o.GetGeneration(), terminating, o.GetLabels(), o.GetAnnotations())
}

// idleState is the result of a reconcile that had nothing to write. No work is needed until the fingerprint changes or the
// time is reached.
type idleState struct {
	fingerprint fingerprint
	until       time.Time // zero if only an event ends it
}

// stillIdle reports whether no work is needed yet, and for how long; zero means until the next event.
func (s *idleState) stillIdle(now fingerprint) (time.Duration, bool) {
	if s == nil || s.fingerprint != now {
		return 0, false
	}
	if s.until.IsZero() {
		return 0, true
	}
	left := time.Until(s.until)
	return left, left > 0
}
