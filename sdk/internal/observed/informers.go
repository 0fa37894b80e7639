package observed

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/sdk/apply"
)

// scope holds the informers of one namespace, or of all.
type scope struct {
	parents   cache.Cache
	children  cache.Cache
	mu        sync.Mutex
	informers map[schema.GroupVersionKind]toolscache.SharedIndexInformer
}

const parentIndex = "parent"

func (v *Cache) newScope(mgr manager.Manager, namespace string) (*scope, error) {
	s := &scope{informers: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{}}
	parents, err := v.newCache(mgr, namespace, cache.Options{
		DefaultTransform: apply.TrimManagedFields(v.Operator), NewInformer: v.informerFactory(s),
	})
	if err != nil {
		return nil, err
	}
	s.parents = crdWaitCache{parents, v.Kinds, mgr.GetLogger().WithValues("controller", v.Operator)}
	s.children, err = v.newCache(mgr, namespace, cache.Options{
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{ManagedByLabel: v.Operator}),
		DefaultTransform:     v.reduceForeign(apply.TrimManagedFields(v.Operator, v.exclusiveFields()...)),
		NewInformer:          v.informerFactory(s),
	})
	return s, err
}

// newCache creates a cache of one namespace, or of all, and adds it to the manager.
func (v *Cache) newCache(mgr manager.Manager, namespace string, options cache.Options) (cache.Cache, error) {
	options.HTTPClient = mgr.GetHTTPClient()
	options.Scheme = v.Scheme
	options.Mapper = v.Mapper
	if namespace != metav1.NamespaceAll {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	c, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, fmt.Errorf("creating a cache of operator %s: %w", v.Operator, err)
	}
	if err := mgr.Add(runnableCache{c}); err != nil {
		return nil, fmt.Errorf("adding a cache of operator %s to the manager: %w", v.Operator, err)
	}
	return c, nil
}

// runnableCache makes the manager start a cache together with its own caches, before any controller and without leader
// election.
type runnableCache struct{ cache.Cache }

// GetCache implements the interface by which the manager recognizes caches.
func (r runnableCache) GetCache() cache.Cache { return r.Cache }

// newInformerFunc is the constructor of informers in cache.Options.
type newInformerFunc = func(
	toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers,
) toolscache.SharedIndexInformer

// informerFactory keeps the informers that the cache creates, and indexes children by the name of their parent.
func (v *Cache) informerFactory(s *scope) newInformerFunc {
	return func(
		lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		gvk, err := apiutil.GVKForObject(example, v.Scheme)
		indexers[parentIndex] = v.indexParent
		if slices.Contains(v.Observed, gvk) {
			indexers[parentIndex] = v.indexInstance
		}
		informer := toolscache.NewSharedIndexInformer(lw, example, resync, indexers)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.informers[gvk] = informer
		}
		return informer
	}
}

func (v *Cache) indexParent(x any) ([]string, error) {
	o, ok := x.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("indexing %T: it is not an object", x)
	}
	if p := v.ParentOf(o); p.UID != "" {
		return []string{storeKey(p.Key)}, nil
	}
	return nil, nil
}

func (v *Cache) indexInstance(x any) ([]string, error) {
	o, ok := x.(client.Object)
	if !ok {
		return nil, fmt.Errorf("indexing %T: it is not an object", x)
	}
	if key, ok := v.instanceOf(o); ok {
		return []string{storeKey(key)}, nil
	}
	return nil, nil
}

// Watches reports whether objects in that namespace are cached. The empty name stands for cluster-scoped objects.
func (v *Cache) Watches(namespace string) bool { return v.scope(namespace) != nil }

// scope returns the informers of a namespace, or nil. Every scope has the cluster-scoped objects.
func (v *Cache) scope(namespace string) *scope {
	if s, ok := v.scopes[namespace]; ok {
		return s
	}
	if namespace == "" {
		for _, s := range v.scopes {
			return s
		}
	}
	return v.scopes[metav1.NamespaceAll]
}

// primaryKeys returns the names of all cached objects of the operator's kind.
func (v *Cache) primaryKeys() []types.NamespacedName {
	var keys []types.NamespacedName
	for _, s := range v.scopes {
		informer := s.informer(v.Primary)
		if informer == nil {
			continue
		}
		for _, x := range informer.GetStore().List() {
			if o, ok := x.(client.Object); ok {
				keys = append(keys, client.ObjectKeyFromObject(o))
			}
		}
	}
	return keys
}

// CheckSynced reports whether every informer has synced. Owned kinds that were not installed when the operator started are
// ignored: the objects that need them report it.
func (v *Cache) CheckSynced(*http.Request) error {
	if v.IsMissing(v.Primary) {
		return v.PrimaryMissingError()
	}
	for _, s := range v.scopes {
		for _, gvk := range append(v.others(), v.Primary) {
			if v.IsMissing(gvk) {
				continue
			}
			switch informer := s.informer(gvk); {
			case informer == nil:
				return fmt.Errorf("the informer of %s has not started", gvk.Kind)
			case !informer.HasSynced():
				return fmt.Errorf("the informer of %s has not synced", gvk.Kind)
			}
		}
	}
	return nil
}
