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
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// servedInterval is how often a new custom resource is tried. It takes some 50 ms from established to served.
const servedInterval = 5 * time.Millisecond

// A kind is a resource whose objects can be listed and deleted.
type kind struct {
	gvr        schema.GroupVersionResource
	gvk        schema.GroupVersionKind
	namespaced bool
	watchable  bool
}

// A monitor watches one kind, or just knows it if it cannot be watched.
type monitor struct {
	kind   kind
	cancel context.CancelFunc
	synced cache.InformerSynced
}

// Events come in great numbers, own nothing and are owned by nobody, so the graph leaves them out. Namespaces get rid
// of them like of everything else. The two groups serve the same objects.
var (
	events     = schema.GroupResource{Resource: "events"}
	moreEvents = schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
)

var crds = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// watchKinds starts to watch every kind, and for custom resources to come.
func (j *Collector) watchKinds(ctx context.Context) error {
	kinds, err := j.discover()
	if err != nil {
		return err
	}
	for _, k := range kinds {
		j.add(ctx, k)
	}
	informer := dynamicinformer.NewFilteredDynamicInformer(j.dynamic, crds, "", 0, cache.Indexers{}, nil).Informer()
	handlers := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { j.crdChanged(ctx, obj) },
		UpdateFunc: func(_, obj any) { j.crdChanged(ctx, obj) },
		DeleteFunc: func(obj any) { j.crdDeleted(obj) },
	}
	if _, err := informer.AddEventHandler(handlers); err != nil {
		return fmt.Errorf("watching custom resource definitions: %w", err)
	}
	j.wg.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), append(j.synced(), informer.HasSynced)...) {
		return fmt.Errorf("watching all kinds: %w", context.Cause(ctx))
	}
	return nil
}

// discover lists Kubernetes's own kinds, each in its preferred version.
func (j *Collector) discover() ([]kind, error) {
	lists, err := j.core.Discovery().ServerPreferredResources()
	// An aggregated API server that is down fails its groups alone.
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
func (j *Collector) add(ctx context.Context, k kind) {
	j.mu.Lock()
	defer j.mu.Unlock()
	resource := k.gvr.GroupResource()
	if old := j.kinds[resource]; old != nil {
		if old.kind == k {
			return
		}
		old.cancel() // the objects stay in the graph: the new version serves the same ones
	}
	ctx, cancel := context.WithCancel(ctx)
	m := &monitor{kind: k, cancel: cancel, synced: func() bool { return true }}
	j.kinds[resource] = m
	if !k.watchable {
		return
	}
	informer := metadatainformer.NewFilteredMetadataInformer(
		j.metadata, k.gvr, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	// Neither can fail before the informer has started.
	_ = informer.SetTransform(strip)
	_, _ = informer.AddEventHandler(j.handlers(k))
	m.synced = informer.HasSynced
	j.wg.Go(func() {
		if j.waitServed(ctx, k) == nil {
			informer.RunWithContext(ctx)
		}
	})
}

// waitServed saves an informer of a new custom resource from failing first and pausing for most of a second.
func (j *Collector) waitServed(ctx context.Context, k kind) error {
	for {
		_, err := j.metadata.Resource(k.gvr).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // only tells the caller to give up
		case <-time.After(servedInterval):
		}
	}
}

func (j *Collector) synced() []cache.InformerSynced {
	j.mu.Lock()
	defer j.mu.Unlock()
	var synced []cache.InformerSynced
	for _, m := range j.kinds {
		synced = append(synced, m.synced)
	}
	return synced
}

// known returns all kinds.
func (j *Collector) known() []kind {
	j.mu.Lock()
	defer j.mu.Unlock()
	kinds := make([]kind, 0, len(j.kinds))
	for _, m := range j.kinds {
		kinds = append(kinds, m.kind)
	}
	return kinds
}

func (j *Collector) crdChanged(ctx context.Context, obj any) {
	if k, err := customKind(obj); err == nil {
		j.add(ctx, k)
	}
}

// crdDeleted runs when the definition is gone, and its objects went before it.
func (j *Collector) crdDeleted(obj any) {
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
	j.mu.Lock()
	if m := j.kinds[resource]; m != nil {
		m.cancel()
		delete(j.kinds, resource)
	}
	j.mu.Unlock()
	for _, uid := range j.graph.ofKind(resource) {
		j.removed(uid)
	}
}

var errNotServed = errors.New("not served yet")

// customKind reads the kind from an established definition, in the version that is stored if that is served.
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

// strip keeps of an object's metadata what the janitor reads.
func strip(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return &metav1.PartialObjectMetadata{TypeMeta: m.TypeMeta, ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
			OwnerReferences: m.OwnerReferences, Finalizers: m.Finalizers, DeletionTimestamp: m.DeletionTimestamp,
		}}, nil
	}
	return obj, nil
}
