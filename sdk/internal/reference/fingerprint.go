package reference

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
)

// Fingerprint returns the fingerprint of the references of that object.
func (r *Watches) Fingerprint(user types.NamespacedName) observed.Fingerprint {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all observed.Fingerprint
	for t := range r.byUser[user] {
		ref := r.watches[t.watchKey()]
		if !ref.synced() {
			continue
		}
		all = all.Add(observed.ObjectVersion{ID: t.ID, Version: "read"})
		for _, o := range ref.objects(ref.users[user][t]) {
			id := object.ID{GVK: t.GVK, Key: client.ObjectKeyFromObject(o)}
			v := observed.ObjectVersion{ID: id, UID: o.GetUID(), Version: o.GetResourceVersion()}
			if t.Key.Name == "" {
				v.Version = relevantVersion(o)
			}
			all = all.Add(v)
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
