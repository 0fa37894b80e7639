package digest

import (
	"container/list"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The weight of an entry is about its size in memory, in bytes. An object may have more than 100,000 keys.
const (
	maxCacheWeight = 32 << 20
	entryWeight    = 256
	keyWeight      = 100 // without the name of the key
)

// cache keeps the latest known version of each object, up to a total weight. If there is no room, it drops the least
// recently used entry of the namespace with the greatest weight, so that one namespace cannot displace the others. An entry
// with more than an eighth of the maximal weight is not kept. It is safe for concurrent use.
type cache struct {
	maxWeight int

	mu         sync.Mutex
	weight     int
	entries    map[types.UID]*list.Element
	namespaces map[string]*share
}

// share is the part of one namespace, the most recently used entry first.
type share struct {
	weight int
	order  *list.List // of *entry
}

type entry struct {
	namespace string
	uid       types.UID
	content   Content
	weight    int
}

func newCache(maxWeight int) *cache {
	return &cache{maxWeight: maxWeight, entries: map[types.UID]*list.Element{}, namespaces: map[string]*share{}}
}

// get returns the content of that version of an object.
func (c *cache) get(o metav1.Object) (Content, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.entries[o.GetUID()]
	if element == nil {
		return Content{}, false
	}
	e := element.Value.(*entry) //nolint:forcetypeassert // the list has only entries
	if e.content.Version != o.GetResourceVersion() {
		return Content{}, false
	}
	c.namespaces[e.namespace].order.MoveToFront(element)
	return e.content, true
}

// add replaces the entry of an object.
func (c *cache) add(o metav1.Object, content Content) {
	e := &entry{namespace: o.GetNamespace(), uid: o.GetUID(), content: content, weight: entryWeight}
	for key := range content.Keys {
		e.weight += keyWeight + len(key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.entries[e.uid]; old != nil {
		c.remove(old)
	}
	if e.weight > c.maxWeight/8 {
		return
	}
	s := c.namespaces[e.namespace]
	if s == nil {
		s = &share{order: list.New()}
		c.namespaces[e.namespace] = s
	}
	c.entries[e.uid] = s.order.PushFront(e)
	s.weight += e.weight
	c.weight += e.weight
	for c.weight > c.maxWeight {
		c.remove(c.heaviest().order.Back())
	}
}

func (c *cache) heaviest() *share {
	var heaviest *share
	for _, s := range c.namespaces {
		if heaviest == nil || s.weight > heaviest.weight {
			heaviest = s
		}
	}
	return heaviest
}

func (c *cache) remove(element *list.Element) {
	e := element.Value.(*entry) //nolint:forcetypeassert // the list has only entries
	s := c.namespaces[e.namespace]
	s.order.Remove(element)
	s.weight -= e.weight
	c.weight -= e.weight
	delete(c.entries, e.uid)
	if s.order.Len() == 0 {
		delete(c.namespaces, e.namespace)
	}
}
