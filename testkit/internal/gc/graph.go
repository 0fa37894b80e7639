package gc

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// A node is the last observed state of an object. It is immutable.
type node struct {
	kind       kind
	namespace  string
	name       string
	uid        types.UID
	owners     []metav1.OwnerReference
	finalizers []string
	deleting   bool
}

func newNode(k kind, obj *metav1.PartialObjectMetadata) *node {
	return &node{
		kind: k, namespace: obj.Namespace, name: obj.Name, uid: obj.UID,
		owners: obj.OwnerReferences, finalizers: obj.Finalizers, deleting: obj.DeletionTimestamp != nil,
	}
}

func (n *node) has(finalizer string) bool { return slices.Contains(n.finalizers, finalizer) }

// waitsForDependents reports whether the object is in foreground deletion.
func (n *node) waitsForDependents() bool {
	return n.deleting && n.has(metav1.FinalizerDeleteDependents)
}

// blocks reports whether the object blocks the foreground deletion of its owner.
func (n *node) blocks(owner types.UID) bool {
	return slices.ContainsFunc(n.owners, func(ref metav1.OwnerReference) bool {
		return ref.UID == owner && ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
	})
}

// matches reports whether a reference from a dependent in the given namespace refers to this object. Its version may differ.
func (n *node) matches(ref metav1.OwnerReference, namespace string) bool {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && ref.UID == n.uid && ref.Name == n.name &&
		ref.Kind == n.kind.gvk.Kind && gv.Group == n.kind.gvk.Group &&
		(n.namespace == "" || n.namespace == namespace)
}

// A graph holds the owner references. It lags behind the server by the delay of events.
type graph struct {
	mu         sync.RWMutex
	nodes      map[types.UID]*node
	dependents map[types.UID]map[types.UID]bool        // by the UID of the owner, existing or not
	contents   map[string]map[schema.GroupResource]int // number of objects, by namespace
	// gone holds deleted owners by UID. After the removal of a kind, this is the only proof that its objects are gone.
	gone *lru.Cache
}

// maxGone is far above the number in use: dependents are processed right after their owner.
const maxGone = 10_000

func newGraph() *graph {
	return &graph{
		nodes: map[types.UID]*node{}, dependents: map[types.UID]map[types.UID]bool{},
		contents: map[string]map[schema.GroupResource]int{}, gone: lru.New(maxGone),
	}
}

// put stores an object and returns its previous state, or nil.
func (g *graph) put(n *node) (before *node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before = g.nodes[n.uid]
	if before != nil {
		g.unlink(before)
	} else {
		g.count(n, 1)
	}
	g.nodes[n.uid] = n
	for _, ref := range n.owners {
		if g.dependents[ref.UID] == nil {
			g.dependents[ref.UID] = map[types.UID]bool{}
		}
		g.dependents[ref.UID][n.uid] = true
	}
	return before
}

// remove removes an object and returns its last state, or nil.
func (g *graph) remove(uid types.UID) (before *node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before = g.nodes[uid]
	if before != nil {
		g.unlink(before)
		g.count(before, -1)
		delete(g.nodes, uid)
		if len(g.dependents[uid]) > 0 {
			g.gone.Add(uid, before)
		}
	}
	return before
}

// ownerWasDeleted reports whether the owner of a dependent in the given namespace existed and has been deleted.
func (g *graph) ownerWasDeleted(ref metav1.OwnerReference, namespace string) bool {
	n, ok := g.gone.Get(ref.UID)
	return ok && n.(*node).matches(ref, namespace) //nolint:forcetypeassert // only nodes are added
}

func (g *graph) unlink(n *node) {
	for _, ref := range n.owners {
		delete(g.dependents[ref.UID], n.uid)
		if len(g.dependents[ref.UID]) == 0 {
			delete(g.dependents, ref.UID)
		}
	}
}

// count changes the number of objects of the node's kind in its namespace.
func (g *graph) count(n *node, by int) {
	if g.contents[n.namespace] == nil {
		g.contents[n.namespace] = map[schema.GroupResource]int{}
	}
	resource := n.kind.gvr.GroupResource()
	g.contents[n.namespace][resource] += by
	if g.contents[n.namespace][resource] == 0 {
		delete(g.contents[n.namespace], resource)
	}
	if len(g.contents[n.namespace]) == 0 {
		delete(g.contents, n.namespace)
	}
}

// kindsIn returns the kinds of the objects in a namespace.
func (g *graph) kindsIn(namespace string) map[schema.GroupResource]bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	kinds := map[schema.GroupResource]bool{}
	for resource := range g.contents[namespace] {
		kinds[resource] = true
	}
	return kinds
}

func (g *graph) get(uid types.UID) *node {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.nodes[uid]
}

// dependentsOf returns the objects with an owner of this UID.
func (g *graph) dependentsOf(uid types.UID) []*node {
	g.mu.RLock()
	defer g.mu.RUnlock()
	nodes := make([]*node, 0, len(g.dependents[uid]))
	for dependent := range g.dependents[uid] {
		nodes = append(nodes, g.nodes[dependent])
	}
	return nodes
}

// ofKind returns the UIDs of all objects of a kind.
func (g *graph) ofKind(resource schema.GroupResource) []types.UID {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var uids []types.UID
	for uid, n := range g.nodes {
		if n.kind.gvr.GroupResource() == resource {
			uids = append(uids, uid)
		}
	}
	return uids
}
