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

// childID names an object among the children of one operator.
type childID struct {
	gvk schema.GroupVersionKind
	key types.NamespacedName
}

func (id childID) String() string { return fmt.Sprintf("%s %s", id.gvk.Kind, id.key.Name) }

// observed is a child as it was before a pass. The object is shared with the cache: never change it.
type observed struct {
	object      client.Object
	terminating bool
	remote      bool // garbage collection does not know whose it is
	kept        bool // nor should it
}

// snapshot is everything a pass observes of its children.
type snapshot struct {
	kinds    *kinds
	pending  bool  // an informer has not shown yet what we did
	arrived  int64 // how many kinds that were missing had come by then
	children map[childID]observed
	// former children belong to an earlier object of the same name, whose UID was another.
	former map[childID]observed
	// observed are those that are looked at only.
	observed map[schema.GroupVersionKind][]client.Object
}

func newSnapshot(k *kinds) *snapshot {
	return &snapshot{
		kinds: k, arrived: k.arrived.Load(), children: map[childID]observed{}, former: map[childID]observed{},
		observed: map[schema.GroupVersionKind][]client.Object{},
	}
}

// catchUp is how often to look whether informers have caught up with what we did.
const catchUp = time.Second

// soon shortens the time until the next look, zero meaning none, while informers lag behind. What was made and is gone
// again while an informer had no watch comes to it by no event: it just is not there when the informer has caught up.
func (s *snapshot) soon(next time.Duration) time.Duration {
	if s.pending && (next == 0 || next > catchUp) {
		return catchUp
	}
	return next
}

func (s *snapshot) put(gvk schema.GroupVersionKind, o client.Object, of parent, uid types.UID) {
	id := childID{gvk, client.ObjectKeyFromObject(o)}
	seen := observed{object: o, terminating: !o.GetDeletionTimestamp().IsZero(), remote: of.remote, kept: of.kept}
	if of.uid != uid {
		if !seen.kept { // what outlived an object is nobody's
			s.former[id] = seen
		}
		return
	}
	if known, ok := s.children[id]; !ok || newer(o.GetResourceVersion(), known.object.GetResourceVersion()) {
		s.children[id] = seen
	}
}

// identify fills in the kind and key of a step from its desired object, whose parent is in the namespace home.
func (s *snapshot) identify(step *step, home string) error {
	gvk, err := apiutil.GVKForObject(step.desired, s.kinds.scheme)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", step.desired, err)
	}
	s.kinds.place(step.desired, gvk, home)
	step.gvk, step.key = gvk, client.ObjectKeyFromObject(step.desired)
	step.remote = home != "" && step.key.Namespace != home
	if step.remote && step.kept {
		return fmt.Errorf("%s is in another namespace than its parent: Retain cannot keep it, KeepChildren can", step)
	}
	return nil
}

// unplanned returns the children that the plan does not mention, those that came last first: the newest, and of the same
// second, which is as exactly as the API server tells, those whose kind the operator lists last.
func (s *snapshot) unplanned(plan []*step) []childID {
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
