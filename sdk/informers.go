package sdk

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

// This file has the caches of the operator and their scope.

// scope holds the informers of one namespace, or of all.
type scope struct {
	parents   cache.Cache
	children  cache.Cache
	mu        sync.Mutex
	informers map[schema.GroupVersionKind]toolscache.SharedIndexInformer
}

const parentIndex = "parent"

func (v *readCache) newScope(mgr manager.Manager, namespace string) (*scope, error) {
	s := &scope{informers: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{}}
	parents, err := v.newCache(mgr, namespace, cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(), NewInformer: v.informerFactory(s),
	})
	if err != nil {
		return nil, err
	}
	s.parents = crdWaitCache{parents, v.kinds, mgr.GetLogger().WithValues("controller", v.operator)}
	s.children, err = v.newCache(mgr, namespace, cache.Options{
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{ManagedByLabel: v.operator}),
		DefaultTransform:     apply.TrimManagedFields(v.operator, v.exclusiveFields()...), NewInformer: v.informerFactory(s),
	})
	return s, err
}

// newCache creates a cache of one namespace, or of all, and adds it to the manager.
func (v *readCache) newCache(mgr manager.Manager, namespace string, options cache.Options) (cache.Cache, error) {
	options.HTTPClient = mgr.GetHTTPClient()
	options.Scheme = v.scheme
	options.Mapper = v.mapper
	if namespace != metav1.NamespaceAll {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	c, err := cache.New(mgr.GetConfig(), options)
	if err != nil {
		return nil, fmt.Errorf("creating a cache of operator %s: %w", v.operator, err)
	}
	if err := mgr.Add(runnableCache{c}); err != nil {
		return nil, fmt.Errorf("adding a cache of operator %s to the manager: %w", v.operator, err)
	}
	return c, nil
}

// runnableCache makes the manager start a cache together with its own caches, before any controller and without leader
// election.
type runnableCache struct{ cache.Cache }

func (r runnableCache) GetCache() cache.Cache { return r.Cache }

// newInformerFunc is the constructor of informers in cache.Options.
type newInformerFunc = func(
	toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers,
) toolscache.SharedIndexInformer

// informerFactory keeps the informers that the cache creates, and indexes children by the name of their parent.
func (v *readCache) informerFactory(s *scope) newInformerFunc {
	return func(
		lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		gvk, err := apiutil.GVKForObject(example, v.scheme)
		indexers[parentIndex] = v.indexParent
		if slices.Contains(v.observed, gvk) {
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

func (v *readCache) indexParent(x any) ([]string, error) {
	o, ok := x.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("indexing %T: it is not an object", x)
	}
	if p := v.parentOf(o); p.uid != "" {
		return []string{storeKey(p.key)}, nil
	}
	return nil, nil
}

func (v *readCache) indexInstance(x any) ([]string, error) {
	o, ok := x.(client.Object)
	if !ok {
		return nil, fmt.Errorf("indexing %T: it is not an object", x)
	}
	if key, ok := v.instanceOf(o); ok {
		return []string{storeKey(key)}, nil
	}
	return nil, nil
}

// watches reports whether objects in that namespace are cached. The empty name stands for cluster-scoped objects.
func (v *readCache) watches(namespace string) bool { return v.scope(namespace) != nil }

// scope returns the informers of a namespace, or nil. Every scope has the cluster-scoped objects.
func (v *readCache) scope(namespace string) *scope {
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
func (v *readCache) primaryKeys() []types.NamespacedName {
	var keys []types.NamespacedName
	for _, s := range v.scopes {
		informer := s.informer(v.primary)
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

// checkSynced reports whether every informer has synced. Owned kinds that were not installed when the operator started are
// ignored: the objects that need them report it.
func (v *readCache) checkSynced(*http.Request) error {
	if v.isMissing(v.primary) {
		return v.primaryMissing()
	}
	for _, s := range v.scopes {
		for _, gvk := range append(v.others(), v.primary) {
			if v.isMissing(gvk) {
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
