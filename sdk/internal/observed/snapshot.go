package observed

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// Child is a child as it was before a reconcile. The object is shared with the cache and is read-only.
type Child struct {
	Object         client.Object
	Terminating    bool
	CrossNamespace bool // garbage collection does not know its owner
	Retained       bool // garbage collection must not know its owner
}

// Snapshot is the observed state of the children in one reconcile.
type Snapshot struct {
	Kinds          *Kinds
	pending        bool  // an informer does not show our own write yet
	installedKinds int64 // the value of kinds.installedLater
	Children       map[object.ID]Child
	// PredecessorChildren are the children of an earlier object of the same name with another UID.
	PredecessorChildren map[object.ID]Child
	// Observed are the objects of observed kinds.
	Observed map[schema.GroupVersionKind][]client.Object
}

// NewSnapshot returns an empty snapshot.
func NewSnapshot(k *Kinds) *Snapshot {
	return &Snapshot{
		Kinds: k, installedKinds: k.installedLater.Load(),
		Children: map[object.ID]Child{}, PredecessorChildren: map[object.ID]Child{},
		Observed: map[schema.GroupVersionKind][]client.Object{},
	}
}

// cacheRecheckInterval is the interval for checking whether informers have caught up with our own writes.
const cacheRecheckInterval = time.Second

// CapRequeue shortens the time until the next reconcile, zero meaning none, while informers lag behind. An object that was
// created and deleted while an informer had no watch causes no event: it is simply missing when the informer has caught up.
func (s *Snapshot) CapRequeue(next time.Duration) time.Duration {
	if s.pending && (next == 0 || next > cacheRecheckInterval) {
		return cacheRecheckInterval
	}
	return next
}

// Add adds an object with its parent to the snapshot of the object with this UID.
func (s *Snapshot) Add(gvk schema.GroupVersionKind, o client.Object, of Parent, uid types.UID) {
	id := object.ID{GVK: gvk, Key: client.ObjectKeyFromObject(o)}
	child := Child{
		Object: o, Terminating: !o.GetDeletionTimestamp().IsZero(), CrossNamespace: of.CrossNamespace, Retained: of.Retained,
	}
	if of.UID != uid {
		if !child.Retained { // a retained child of a deleted object is unowned
			s.PredecessorChildren[id] = child
		}
		return
	}
	if known, ok := s.Children[id]; !ok || newer(o.GetResourceVersion(), known.Object.GetResourceVersion()) {
		s.Children[id] = child
	}
}

// Unplanned returns the children that the plan does not contain, in the reverse order of their creation: the newest first,
// and children of the same second, the resolution of creation timestamps, in the reverse order of Operator.Owns.
func (s *Snapshot) Unplanned(planned map[object.ID]bool) []object.ID {
	var rest []object.ID
	for id := range s.Children {
		if !planned[id] {
			rest = append(rest, id)
		}
	}
	created := func(id object.ID) time.Time { return s.Children[id].Object.GetCreationTimestamp().Time }
	slices.SortFunc(rest, func(a, b object.ID) int {
		return -cmp.Or(
			created(a).Compare(created(b)),
			cmp.Compare(slices.Index(s.Kinds.Owned, a.GVK), slices.Index(s.Kinds.Owned, b.GVK)),
			cmp.Compare(a.Key.String(), b.Key.String()))
	})
	return rest
}
