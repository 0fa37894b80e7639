package sdk

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// childID identifies an object among the children of one operator.
type childID struct {
	gvk schema.GroupVersionKind
	key types.NamespacedName
}

func (id childID) String() string { return fmt.Sprintf("%s %s", id.gvk.Kind, id.key.Name) }

// observedChild is a child as it was before a reconcile. The object is shared with the cache and is read-only.
type observedChild struct {
	object         client.Object
	terminating    bool
	crossNamespace bool // garbage collection does not know its owner
	retained       bool // garbage collection must not know its owner
}

// snapshot is the observed state of the children in one reconcile.
type snapshot struct {
	kinds          *kinds
	pending        bool  // an informer does not show our own write yet
	installedKinds int64 // the value of kinds.installedLater
	children       map[childID]observedChild
	// predecessors are the children of an earlier object of the same name with another UID.
	predecessors map[childID]observedChild
	// observed are the objects of observed kinds.
	observed map[schema.GroupVersionKind][]client.Object
}

func newSnapshot(k *kinds) *snapshot {
	return &snapshot{
		kinds: k, installedKinds: k.installedLater.Load(),
		children: map[childID]observedChild{}, predecessors: map[childID]observedChild{},
		observed: map[schema.GroupVersionKind][]client.Object{},
	}
}

// cacheRecheckInterval is the interval for checking whether informers have caught up with our own writes.
const cacheRecheckInterval = time.Second

// capRequeue shortens the time until the next reconcile, zero meaning none, while informers lag behind. An object that was
// created and deleted while an informer had no watch causes no event: it is simply missing when the informer has caught up.
func (s *snapshot) capRequeue(next time.Duration) time.Duration {
	if s.pending && (next == 0 || next > cacheRecheckInterval) {
		return cacheRecheckInterval
	}
	return next
}

func (s *snapshot) add(gvk schema.GroupVersionKind, o client.Object, of parent, uid types.UID) {
	id := childID{gvk, client.ObjectKeyFromObject(o)}
	child := observedChild{
		object: o, terminating: !o.GetDeletionTimestamp().IsZero(), crossNamespace: of.crossNamespace, retained: of.retained,
	}
	if of.uid != uid {
		if !child.retained { // a retained child of a deleted object is unowned
			s.predecessors[id] = child
		}
		return
	}
	if known, ok := s.children[id]; !ok || newer(o.GetResourceVersion(), known.object.GetResourceVersion()) {
		s.children[id] = child
	}
}

// identify sets the kind and the key of a planned child. home is the namespace of the parent.
func (s *snapshot) identify(c *plannedChild, home string) error {
	gvk, err := apiutil.GVKForObject(c.desired, s.kinds.scheme)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", c.desired, err)
	}
	s.kinds.defaultNamespace(c.desired, gvk, home)
	c.gvk = gvk
	c.key = client.ObjectKeyFromObject(c.desired)
	c.crossNamespace = home != "" && c.key.Namespace != home
	if c.crossNamespace && c.retain {
		return fmt.Errorf("%s is in another namespace than its parent: Retain cannot keep it, OrphanChildren can", c)
	}
	return nil
}

// unplanned returns the children that the plan does not contain, in the reverse order of their creation: the newest first,
// and children of the same second, the resolution of creation timestamps, in the reverse order of Operator.Owns.
func (s *snapshot) unplanned(plan []*plannedChild) []childID {
	planned := map[childID]bool{}
	for _, p := range plan {
		planned[p.id()] = true
	}
	var rest []childID
	for id := range s.children {
		if !planned[id] {
			rest = append(rest, id)
		}
	}
	created := func(id childID) time.Time { return s.children[id].object.GetCreationTimestamp().Time }
	slices.SortFunc(rest, func(a, b childID) int {
		return -cmp.Or(
			created(a).Compare(created(b)),
			cmp.Compare(slices.Index(s.kinds.owned, a.gvk), slices.Index(s.kinds.owned, b.gvk)),
			cmp.Compare(a.key.String(), b.key.String()))
	})
	return rest
}
