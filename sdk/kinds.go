package sdk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// kinds holds the properties of the kinds that an operator works with. It is safe for concurrent use.
type kinds struct {
	operator      string
	finalizer     string
	scheme        *runtime.Scheme
	mapper        meta.RESTMapper
	primary       schema.GroupVersionKind
	owned         []schema.GroupVersionKind            // in the order of Operator.Owns
	observed      []schema.GroupVersionKind            // kinds that are read and never written
	partial       map[schema.GroupVersionKind]bool     // kinds that are cached as metadata only
	exclusiveMaps map[schema.GroupVersionKind][]string // exclusive maps by kind
	watched       []client.Object                      // one object of each kind except the primary, for the caches

	scopes         sync.Map     // known kinds, and whether they are namespaced
	unwatched      sync.Map     // missing owned kinds, and the reason
	installedLater atomic.Int64 // the number of kinds installed after the start
}

func (op *Operator[T]) kinds(scheme *runtime.Scheme, mapper meta.RESTMapper) (*kinds, error) {
	k := &kinds{
		operator: op.Name, finalizer: op.finalizerName(), scheme: scheme, mapper: mapper,
		partial: map[schema.GroupVersionKind]bool{}, exclusiveMaps: map[schema.GroupVersionKind][]string{},
	}
	var err error
	if k.primary, err = apiutil.GVKForObject(object.New[T](), scheme); err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", object.New[T](), err)
	}
	if k.owned, err = k.list("Owns", op.Owns); err == nil {
		k.observed, err = k.list("Observes", op.Observes)
	}
	if err != nil {
		return nil, fmt.Errorf("operator %q is not usable: %w", op.Name, err)
	}
	return k, nil
}

// list validates and adds the kinds of one field of the operator. Each kind can be listed once: there is one informer per
// kind, and one object must not be counted twice.
func (k *kinds) list(field string, objects []client.Object) ([]schema.GroupVersionKind, error) {
	known := []schema.GroupKind{k.primary.GroupKind()}
	for _, gvk := range k.owned {
		known = append(known, gvk.GroupKind())
	}
	var all []schema.GroupVersionKind
	for i, o := range objects {
		if o == nil {
			return nil, fmt.Errorf("item %d of field %s is nil", i, field)
		}
		whole, _ := o.(*exclusiveMaps)
		o, gvk, err := cacheObject(o, k.scheme)
		switch kind := gvk.GroupKind(); {
		case err != nil:
			return nil, fmt.Errorf("finding the kind of %T, which %s lists: %w", o, field, err)
		case kind == known[0]:
			return nil, fmt.Errorf("field %s lists %s, which is the operator's own kind", field, kind)
		case slices.Contains(known, kind):
			return nil, fmt.Errorf("field %s lists %s, which is listed already", field, kind)
		}
		known = append(known, gvk.GroupKind())
		all = append(all, gvk)
		k.watched = append(k.watched, o)
		_, k.partial[gvk] = o.(*metav1.PartialObjectMetadata)
		if whole != nil {
			k.exclusiveMaps[gvk] = whole.fields
		}
	}
	return all, nil
}

// exclusiveFields returns the names of the exclusive maps of all kinds.
func (k *kinds) exclusiveFields() []string {
	return slices.Concat(slices.Collect(maps.Values(k.exclusiveMaps))...)
}

// others returns every kind except the primary, in the order of watched.
func (k *kinds) others() []schema.GroupVersionKind { return slices.Concat(k.owned, k.observed) }

// isPrimary reports whether the reference is to an object of the operator's kind, in any version.
func (k *kinds) isPrimary(ref *metav1.OwnerReference) bool {
	if ref == nil || ref.Kind != k.primary.Kind {
		return false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == k.primary.Group
}

// namespaced reports whether objects of that kind are namespaced. It assumes so for a kind that the API server does not
// know.
func (k *kinds) namespaced(gvk schema.GroupVersionKind) bool {
	if k.isMissing(gvk) { // a lookup would be a request
		return true
	}
	if known, ok := k.scopes.Load(gvk); ok { // it is used for each child in each reconcile, and never changes
		return known == meta.RESTScopeNameNamespace
	}
	mapping, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return true
	}
	k.scopes.Store(gvk, mapping.Scope.Name())
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace
}

// defaultNamespace sets the namespace of an object without one to home. Cluster-scoped objects get none, as in the API
// server.
func (k *kinds) defaultNamespace(o client.Object, gvk schema.GroupVersionKind, home string) {
	switch {
	case !k.namespaced(gvk):
		o.SetNamespace("")
	case o.GetNamespace() == "":
		o.SetNamespace(home)
	}
}

// intent returns the intent of a planned child, including its ownership metadata.
func (k *kinds) intent(ctx context.Context, parent client.Object, s *plannedChild) (*apply.Intent, error) {
	owner := apply.ControlledBy(parent)
	if s.crossNamespace || s.retain {
		owner = apply.LabeledBy(parent)
	}
	opts := append([]apply.Option{
		owner, apply.WithLabel(ManagedByLabel, k.operator), apply.ExclusiveMaps(k.exclusiveMaps[s.gvk]...),
	}, s.intent...)
	if s.hold {
		opts = append(opts, apply.WithFinalizer(k.finalizer))
	}
	if s.content != nil {
		opts = append(opts, apply.ContentFrom(func() (client.Object, error) { return s.content(ctx) }))
	}
	return apply.NewIntent(s.desired, k.scheme, opts...)
}
