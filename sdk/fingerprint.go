package sdk

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sight is a digest of all that a pass can see: the object, its children and its references, each with its version.
// Equal sights lead to equal passes, time apart. It tells an event that is news from one whose effect a pass has seen
// already, because that pass wrote it itself or because several events came at once.
type sight uint64

//nolint:gochecknoglobals // sights are compared within a process only.
var sightSeed = maphash.MakeSeed()

// glimpse is what a sight holds of one object.
type glimpse struct {
	id          childID
	uid         types.UID
	version     string
	terminating bool
}

// add gives the same sum in any order.
func (s sight) add(g glimpse) sight { return s + sight(maphash.Comparable(sightSeed, g)) }

func (s *snapshot) sight(o client.Object) sight {
	all := sight(0).add(glimpse{version: strconv.FormatInt(s.arrived, 10)})
	all = all.add(glimpse{uid: o.GetUID(), version: o.GetResourceVersion()})
	for _, objects := range []map[childID]observed{s.children, s.former} {
		for id, seen := range objects {
			all = all.add(glimpse{id, seen.object.GetUID(), seen.object.GetResourceVersion(), seen.terminating})
		}
	}
	for _, objects := range s.observed {
		for _, o := range objects {
			all = all.add(glimpse{uid: o.GetUID(), version: o.GetResourceVersion()})
		}
	}
	return all
}

// sight adds what the object of that name refers to.
func (r *references) sight(user types.NamespacedName) sight {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all sight
	for t := range r.byUser[user] {
		ref := r.watches[t]
		if !ref.synced() {
			continue
		}
		all = all.add(glimpse{id: t.childID, version: "read"})
		for _, o := range ref.objects() {
			g := glimpse{id: childID{t.gvk, client.ObjectKeyFromObject(o)}, uid: o.GetUID(), version: o.GetResourceVersion()}
			if t.key.Name == "" {
				g.version = aspect(o)
			}
			all = all.add(g)
		}
	}
	return all
}

// aspect identifies what a pass makes of an object that it found among others: whatever its controller writes into its
// status is nobody else's business.
func aspect(x any) string {
	o, ok := x.(client.Object)
	switch {
	case !ok:
		return ""
	case o.GetGeneration() == 0:
		return o.GetResourceVersion()
	}
	going := o.GetDeletionTimestamp() != nil
	return fmt.Sprint(o.GetGeneration(), going, o.GetLabels(), o.GetAnnotations()) // which prints maps in the order of keys
}

// calm is what an object was left in by a pass that had nothing to write: nothing is to be done before it looks
// different or the time comes.
type calm struct {
	sight sight
	until time.Time // zero if only an event ends it
}

// lasts reports whether nothing has to be done yet, and for how long; zero means until an event.
func (c *calm) lasts(now sight) (time.Duration, bool) {
	if c == nil || c.sight != now {
		return 0, false
	}
	if c.until.IsZero() {
		return 0, true
	}
	left := time.Until(c.until)
	return left, left > 0
}
