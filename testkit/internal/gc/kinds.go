package gc

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// servedInterval is the polling interval for a new custom resource. It is served some 50 ms after it is established.
const servedInterval = 5 * time.Millisecond

// A kind is a resource whose objects can be listed and deleted.
type kind struct {
	gvr        schema.GroupVersionResource
	gvk        schema.GroupVersionKind
	namespaced bool
	watchable  bool
}

// A monitor watches one kind, or only lists it if it cannot be watched.
type monitor struct {
	kind   kind
	cancel context.CancelFunc
	synced cache.InformerSynced
}

// Events are numerous and have neither owners nor dependents, so the graph leaves them out. They are deleted with their
// namespace. Both groups serve the same objects.
var (
	events     = schema.GroupResource{Resource: "events"}
	moreEvents = schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
)

var crds = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// watchKinds starts to watch every kind, and definitions of new custom resources.
func (c *Collector) watchKinds(ctx context.Context) error {
	kinds, err := c.discover()
	if err != nil {
		return err
	}
	for _, k := range kinds {
		c.add(ctx, k)
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(c.dynamic, crds, "", 0, cache.Indexers{}, nil).Informer()
	handlers := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.crdChanged(ctx, obj) },
		UpdateFunc: func(_, obj any) { c.crdChanged(ctx, obj) },
		DeleteFunc: func(obj any) { c.crdDeleted(obj) },
	}
	if _, err := informer.AddEventHandler(handlers); err != nil {
		return fmt.Errorf("watching custom resource definitions: %w", err)
	}
	c.wg.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), append(c.synced(), informer.HasSynced)...) {
		return fmt.Errorf("watching all kinds: %w", context.Cause(ctx))
	}
	return nil
}

// discover lists the built-in kinds, each in its preferred version.
func (c *Collector) discover() ([]kind, error) {
	lists, err := c.core.Discovery().ServerPreferredResources()
	// An aggregated API server that is down affects its own groups only.
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("listing the kinds of the server: %w", err)
	}
	var kinds []kind
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("listing the kinds of the server: %w", err)
		}
		for _, r := range list.APIResources {
			k := kind{
				gvr: gv.WithResource(r.Name), gvk: gv.WithKind(r.Kind), namespaced: r.Namespaced,
				watchable: discovery.SupportsAllVerbs{Verbs: []string{"watch"}}.Match(list.GroupVersion, &r),
			}
			switch k.gvr.GroupResource() {
			case moreEvents:
				continue
			case events:
				k.watchable = false
			}
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

// add starts to watch a kind, unless it is watched already.
func (c *Collector) add(ctx context.Context, k kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resource := k.gvr.GroupResource()
	old := c.kinds[resource]
	if old != nil {
		if old.kind == k {
			return
		}
		old.cancel() // the objects stay in the graph: the new version serves the same ones
	}
	ctx, cancel := context.WithCancel(ctx)
	m := &monitor{kind: k, cancel: cancel, synced: func() bool { return true }}
	c.kinds[resource] = m
	if !k.watchable {
		return
	}
	informer := metadatainformer.NewFilteredMetadataInformer(
		c.metadata, k.gvr, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	// Neither can fail before the informer has started.
	_ = informer.SetTransform(strip)
	_, _ = informer.AddEventHandler(c.handlers(k))
	m.synced = informer.HasSynced
	c.wg.Go(func() {
		if c.waitServed(ctx, k) == nil {
			informer.RunWithContext(ctx)
		}
	})
	if old != nil {
		c.wg.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				c.removeMissing(resource, informer.GetStore())
			}
		})
	}
}

// removeMissing removes the objects of a kind that were deleted between two watches of it. Neither has reported them.
func (c *Collector) removeMissing(resource schema.GroupResource, store cache.Store) {
	known := c.graph.ofKind(resource) // before the store is read: it has all of them that exist
	stored := map[types.UID]bool{}
	for _, obj := range store.List() {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			stored[m.UID] = true
		}
	}
	for _, uid := range known {
		if !stored[uid] {
			c.removed(uid)
		}
	}
}

// waitServed returns when a new custom resource is served. Its informer would otherwise fail and back off for a second.
func (c *Collector) waitServed(ctx context.Context, k kind) error {
	for {
		_, err := c.metadata.Resource(k.gvr).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(servedInterval):
		}
	}
}

func (c *Collector) synced() []cache.InformerSynced {
	c.mu.Lock()
	defer c.mu.Unlock()
	var synced []cache.InformerSynced
	for _, m := range c.kinds {
		synced = append(synced, m.synced)
	}
	return synced
}

// allKinds returns all kinds.
func (c *Collector) allKinds() []kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	kinds := make([]kind, 0, len(c.kinds))
	for _, m := range c.kinds {
		kinds = append(kinds, m.kind)
	}
	return kinds
}

func (c *Collector) crdChanged(ctx context.Context, obj any) {
	if k, err := customKind(obj); err == nil {
		c.add(ctx, k)
	}
}

// crdDeleted removes a kind. The objects were deleted before their definition.
func (c *Collector) crdDeleted(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	group, _, _ := unstructured.NestedString(u.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(u.Object, "spec", "names", "plural")
	resource := schema.GroupResource{Group: group, Resource: plural}
	c.mu.Lock()
	if m := c.kinds[resource]; m != nil {
		m.cancel()
		delete(c.kinds, resource)
	}
	c.mu.Unlock()
	for _, uid := range c.graph.ofKind(resource) {
		c.removed(uid)
	}
}

var errNotServed = errors.New("not served yet")

// customKind reads the kind from an established definition, preferably in its storage version.
func customKind(obj any) (kind, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return kind{}, errNotServed
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &crd); err != nil {
		return kind{}, fmt.Errorf("reading a definition: %w", err)
	}
	established := false
	for _, c := range crd.Status.Conditions {
		established = established ||
			c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	}
	var version string
	for _, v := range crd.Spec.Versions {
		if v.Served && (version == "" || v.Storage) {
			version = v.Name
		}
	}
	if !established || version == "" {
		return kind{}, errNotServed
	}
	gv := schema.GroupVersion{Group: crd.Spec.Group, Version: version}
	return kind{
		gvr: gv.WithResource(crd.Spec.Names.Plural), gvk: gv.WithKind(crd.Spec.Names.Kind),
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped, watchable: true,
	}, nil
}

// strip reduces an object to the metadata that the collector needs.
func strip(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{TypeMeta: m.TypeMeta, ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
			OwnerReferences: m.OwnerReferences, Finalizers: m.Finalizers, DeletionTimestamp: m.DeletionTimestamp,
		}}, nil
	}
	return obj, nil
}
