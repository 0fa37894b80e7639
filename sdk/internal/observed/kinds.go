// Package observed reads the state of the cluster for a reconcile: the custom resource, its children and the objects that
// children create.
//
// [Kinds] describes the kinds of one operator. [Cache] is a read-your-writes cache: informers, with an overlay of the
// responses to the operator's own writes that the informers have not delivered yet. A read makes no request and never
// blocks. A [Snapshot] is the part of it that one reconcile sees, and its [Fingerprint] tells whether anything has changed
// since.
//
// The package writes nothing. Objects outside of these kinds are in package reference.
package observed

import (
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

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// ManagedByLabel is the label of every child and observed object; its value is the operator's name.
const ManagedByLabel = "app.kubernetes.io/managed-by"

// InstanceLabel is a label of observed objects; its value is the name of the object of the operator's kind.
const InstanceLabel = "app.kubernetes.io/instance"

// Kinds holds the properties of the kinds that an operator works with. It is safe for concurrent use.
type Kinds struct {
	Operator      string
	Finalizer     string
	Scheme        *runtime.Scheme
	Mapper        meta.RESTMapper
	primary       client.Object // an empty object of the primary kind
	Primary       schema.GroupVersionKind
	Owned         []schema.GroupVersionKind            // in the order of Operator.Owns
	Observed      []schema.GroupVersionKind            // kinds that are read and never written
	Partial       map[schema.GroupVersionKind]bool     // kinds that are cached as metadata only
	ExclusiveMaps map[schema.GroupVersionKind][]string // exclusive maps by kind
	Watched       []client.Object                      // one object of each kind except the primary, for the caches

	scopes         sync.Map     // scopes of known kinds
	unwatched      sync.Map     // missing owned kinds, and the reason
	installedLater atomic.Int64 // the number of kinds installed after the start
}

// list validates and adds the kinds of one field of the operator. Each kind can be listed once: there is one informer per
// kind, and one object must not be counted twice.
func (k *Kinds) list(field string, objects []client.Object) ([]schema.GroupVersionKind, error) {
	known := []schema.GroupKind{k.Primary.GroupKind()}
	for _, gvk := range k.Owned {
		known = append(known, gvk.GroupKind())
	}
	var all []schema.GroupVersionKind
	for i, o := range objects {
		if o == nil {
			return nil, fmt.Errorf("item %d of field %s is nil", i, field)
		}
		whole, _ := o.(*exclusiveMaps)
		o, gvk, err := cacheObject(o, k.Scheme)
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
		k.Watched = append(k.Watched, o)
		_, k.Partial[gvk] = o.(*metav1.PartialObjectMetadata)
		if whole != nil {
			k.ExclusiveMaps[gvk] = whole.fields
		}
	}
	return all, nil
}

// exclusiveFields returns the names of the exclusive maps of all kinds.
func (k *Kinds) exclusiveFields() []string {
	return slices.Concat(slices.Collect(maps.Values(k.ExclusiveMaps))...)
}

// others returns every kind except the primary, in the order of watched.
func (k *Kinds) others() []schema.GroupVersionKind { return slices.Concat(k.Owned, k.Observed) }

// isPrimary reports whether the reference is to an object of the operator's kind, in any version.
func (k *Kinds) isPrimary(ref *metav1.OwnerReference) bool {
	if ref == nil || ref.Kind != k.Primary.Kind {
		return false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == k.Primary.Group
}

// Namespaced reports whether objects of that kind are namespaced. It assumes so for a kind that the API server does not
// know.
func (k *Kinds) Namespaced(gvk schema.GroupVersionKind) bool {
	return k.scope(gvk) != meta.RESTScopeNameRoot
}

// scope returns the scope of a kind. It is empty if the API server does not know the kind.
func (k *Kinds) scope(gvk schema.GroupVersionKind) meta.RESTScopeName {
	if k.IsMissing(gvk) { // a lookup would be a request
		return ""
	}
	if known, ok := k.scopes.Load(gvk); ok { // it is used for each child in each reconcile, and never changes
		name, _ := known.(meta.RESTScopeName)
		return name
	}
	mapping, err := k.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return ""
	}
	k.scopes.Store(gvk, mapping.Scope.Name())
	return mapping.Scope.Name()
}

// CheckNamespace returns an error for the ID of a namespaced object without a namespace, after [Kinds.DefaultNamespace]. A
// cluster-scoped parent has no namespace to default to. The API server would answer that there is no such resource.
func (k *Kinds) CheckNamespace(id object.ID) error {
	if id.Key.Namespace != "" || k.scope(id.GVK) != meta.RESTScopeNameNamespace {
		return nil
	}
	return fmt.Errorf("%s has no namespace, and no default, because its parent is cluster-scoped: set metadata.namespace", id)
}

// DefaultNamespace sets the namespace of an object without one to home. Cluster-scoped objects get none, as in the API
// server.
func (k *Kinds) DefaultNamespace(o client.Object, gvk schema.GroupVersionKind, home string) {
	switch {
	case !k.Namespaced(gvk):
		o.SetNamespace("")
	case o.GetNamespace() == "":
		o.SetNamespace(home)
	}
}

// NewKinds returns the kinds of an operator: primary is an object of its own kind, owns and observes are objects of the
// kinds in its fields Owns and Observes.
func NewKinds(
	operator, finalizer string, primary client.Object, owns, observes []client.Object,
	scheme *runtime.Scheme, mapper meta.RESTMapper,
) (*Kinds, error) {
	k := &Kinds{
		Operator: operator, Finalizer: finalizer, Scheme: scheme, Mapper: mapper, primary: primary,
		Partial: map[schema.GroupVersionKind]bool{}, ExclusiveMaps: map[schema.GroupVersionKind][]string{},
	}
	var err error
	if k.Primary, err = apiutil.GVKForObject(primary, scheme); err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", primary, err)
	}
	if k.Owned, err = k.list("Owns", owns); err == nil {
		k.Observed, err = k.list("Observes", observes)
	}
	if err != nil {
		return nil, fmt.Errorf("operator %q is not usable: %w", operator, err)
	}
	return k, nil
}
