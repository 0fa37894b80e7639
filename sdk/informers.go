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

// This file is about what is watched, and where.

// scope is the informers of one namespace, or of all.
type scope struct {
	parents   cache.Cache
	children  cache.Cache
	mu        sync.Mutex
	informers map[schema.GroupVersionKind]toolscache.SharedIndexInformer
}

const parentIndex = "parent"

func (v *view) newScope(mgr manager.Manager, namespace string) (*scope, error) {
	s := &scope{informers: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{}}
	parents, err := v.newCache(mgr, namespace, cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(), NewInformer: v.captureIn(s),
	})
	if err != nil {
		return nil, err
	}
	s.parents = patientCache{parents, v.kinds, mgr.GetLogger().WithValues("controller", v.operator)}
	s.children, err = v.newCache(mgr, namespace, cache.Options{
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{ManagedByLabel: v.operator}),
		DefaultTransform:     apply.TrimManagedFields(v.operator, v.exactFields()...), NewInformer: v.captureIn(s),
	})
	return s, err
}

// newCache makes a cache of a namespace, or of all, and adds it to the manager.
func (v *view) newCache(mgr manager.Manager, namespace string, options cache.Options) (cache.Cache, error) {
	options.HTTPClient, options.Scheme, options.Mapper = mgr.GetHTTPClient(), v.scheme, v.mapper
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

// runnableCache makes the manager start a cache with its own caches, before any controller and without leader election.
type runnableCache struct{ cache.Cache }

func (r runnableCache) GetCache() cache.Cache { return r.Cache }

// newInformer is what a cache calls to make an informer.
type newInformer = func(
	toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers,
) toolscache.SharedIndexInformer

// captureIn keeps hold of the informers that the cache makes, and indexes children by the name of their parent.
func (v *view) captureIn(s *scope) newInformer {
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

func (v *view) indexParent(x any) ([]string, error) {
	o, ok := x.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("indexing %T: it is not an object", x)
	}
	if p := v.parentOf(o); p.uid != "" {
		return []string{storeKey(p.key)}, nil
	}
	return nil, nil
}

func (v *view) indexInstance(x any) ([]string, error) {
	o, ok := x.(client.Object)
	if !ok {
		return nil, fmt.Errorf("indexing %T: it is not an object", x)
	}
	if key, ok := v.instanceOf(o); ok {
		return []string{storeKey(key)}, nil
	}
	return nil, nil
}

// watches reports whether objects in that namespace are seen. The empty name is that of what is in no namespace.
func (v *view) watches(namespace string) bool { return v.scope(namespace) != nil }

// scope returns the informers that see a namespace, or nil. What is in no namespace all of them see.
func (v *view) scope(namespace string) *scope {
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

// all returns the names of all objects of the operator's kind.
func (v *view) all() []types.NamespacedName {
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

// ready reports whether every informer holds what the API server has, but for owned kinds that were missing when the
// operator started: what needs those says so itself.
func (v *view) ready(*http.Request) error {
	if v.missing(v.primary) {
		return v.primaryMissing()
	}
	for _, s := range v.scopes {
		for _, gvk := range append(v.others(), v.primary) {
			if v.missing(gvk) {
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
