package sdk

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	cache     cache.Cache
	mu        sync.Mutex
	informers map[schema.GroupVersionKind]toolscache.SharedIndexInformer
}

const parentIndex = "parent"

// own takes in the kinds that the operator owns. Each can be listed once: there is one informer of a kind, and one object
// must not be seen as two.
func (v *view) own(owned []client.Object) error {
	listed := map[schema.GroupKind]bool{}
	for i, o := range owned {
		if o == nil {
			return fmt.Errorf("item %d of field Owns is nil", i)
		}
		o, gvk, err := watched(o, v.scheme)
		switch kind := gvk.GroupKind(); {
		case err != nil:
			return fmt.Errorf("finding the kind of %T, which Owns lists: %w", o, err)
		case kind == v.primary.GroupKind():
			return fmt.Errorf("field Owns lists %s, which is the operator's own kind", kind)
		case listed[kind]:
			return fmt.Errorf("field Owns lists %s twice", kind)
		}
		listed[gvk.GroupKind()] = true
		v.owned, v.watched = append(v.owned, gvk), append(v.watched, o)
		_, v.partial[gvk] = o.(*metav1.PartialObjectMetadata)
	}
	return nil
}

func (v *view) newScope(mgr manager.Manager, namespace string) (*scope, error) {
	s := &scope{informers: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{}}
	byObject := map[client.Object]cache.ByObject{}
	for _, o := range v.watched {
		byObject[o] = cache.ByObject{
			Label:     labels.SelectorFromSet(labels.Set{ManagedByLabel: v.name}),
			Transform: apply.KeepOwn(v.name),
		}
	}
	options := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: v.scheme, Mapper: mgr.GetRESTMapper(),
		ByObject: byObject, DefaultTransform: cache.TransformStripManagedFields(), NewInformer: v.captureIn(s),
	}
	if namespace != metav1.NamespaceAll {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	var err error
	if s.cache, err = cache.New(mgr.GetConfig(), options); err != nil {
		return nil, fmt.Errorf("creating the cache of operator %s: %w", v.name, err)
	}
	if err := mgr.Add(runnableCache{s.cache}); err != nil {
		return nil, fmt.Errorf("adding the cache of operator %s to the manager: %w", v.name, err)
	}
	return s, nil
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
		indexers[parentIndex] = v.indexParent
		informer := toolscache.NewSharedIndexInformer(lw, example, resync, indexers)
		if gvk, err := apiutil.GVKForObject(example, v.scheme); err == nil {
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

// namespaced reports whether objects of that kind are in a namespace, as most are: so it is assumed of a kind that the API
// server does not know.
func (v *view) namespaced(gvk schema.GroupVersionKind) bool {
	mapping, err := v.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	return err != nil || mapping.Scope.Name() == meta.RESTScopeNameNamespace
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

// ready reports whether every informer holds what the API server has.
func (v *view) ready(*http.Request) error {
	for _, s := range v.scopes {
		s.mu.Lock()
		for gvk, informer := range s.informers {
			if !informer.HasSynced() {
				s.mu.Unlock()
				return fmt.Errorf("the informer of %s has not synced", gvk.Kind)
			}
		}
		if len(s.informers) <= len(v.owned) {
			s.mu.Unlock()
			return errors.New("the informers have not started")
		}
		s.mu.Unlock()
	}
	return nil
}
