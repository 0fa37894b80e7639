package observed

import (
	"hash/maphash"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// Fingerprint is a hash of the versions of all objects that a reconcile reads: the object, its children and its references.
// Equal fingerprints lead to equal reconciles, except for the time. Comparing them filters events of our own writes and
// several events of one change, and so skips reconciles without work.
type Fingerprint uint64

var fingerprintSeed = maphash.MakeSeed()

// ObjectVersion is the part of a fingerprint that one object contributes.
type ObjectVersion struct {
	ID          object.ID
	UID         types.UID
	Version     string
	Terminating bool
}

// Add adds an object version. The sum does not depend on the order.
func (s Fingerprint) Add(g ObjectVersion) Fingerprint {
	return s + Fingerprint(maphash.Comparable(fingerprintSeed, g))
}

// Fingerprint returns the fingerprint of the object o and the snapshot.
func (s *Snapshot) Fingerprint(o client.Object) Fingerprint {
	all := Fingerprint(0).Add(ObjectVersion{Version: strconv.FormatInt(s.installedKinds, 10)})
	all = all.Add(ObjectVersion{UID: o.GetUID(), Version: o.GetResourceVersion()})
	for _, objects := range []map[object.ID]Child{s.Children, s.PredecessorChildren} {
		for id, seen := range objects {
			all = all.Add(ObjectVersion{id, seen.Object.GetUID(), seen.Object.GetResourceVersion(), seen.Terminating})
		}
	}
	for _, objects := range s.Observed {
		for _, o := range objects {
			all = all.Add(ObjectVersion{UID: o.GetUID(), Version: o.GetResourceVersion()})
		}
	}
	return all
}
