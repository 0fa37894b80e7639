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

// kinds is what there is to know of the kinds that an operator works with. It is safe for concurrent use.
type kinds struct {
	operator  string
	finalizer string
	scheme    *runtime.Scheme
	mapper    meta.RESTMapper
	primary   schema.GroupVersionKind
	owned     []schema.GroupVersionKind            // in the order in which the operator lists them
	observed  []schema.GroupVersionKind            // which are looked at only
	partial   map[schema.GroupVersionKind]bool     // of which only metadata is watched
	exact     map[schema.GroupVersionKind][]string // fields that are the operator's whole
	watched   []client.Object                      // one of each kind but the primary, for the caches

	scopes    sync.Map     // kinds that were asked for, and whether they are in a namespace
	unwatched sync.Map     // owned kinds that are missing, and why
	arrived   atomic.Int64 // how many of them came
}

func (op *Operator[T]) kinds(scheme *runtime.Scheme, mapper meta.RESTMapper) (*kinds, error) {
	k := &kinds{
		operator: op.Name, finalizer: op.finalizerName(), scheme: scheme, mapper: mapper,
		partial: map[schema.GroupVersionKind]bool{}, exact: map[schema.GroupVersionKind][]string{},
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

// list takes in the kinds that a field lists. Each can be listed once: there is one informer of a kind, and one object must
// not be seen as two.
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
		whole, _ := o.(*exact)
		o, gvk, err := watched(o, k.scheme)
		switch kind := gvk.GroupKind(); {
		case err != nil:
			return nil, fmt.Errorf("finding the kind of %T, which %s lists: %w", o, field, err)
		case kind == known[0]:
			return nil, fmt.Errorf("field %s lists %s, which is the operator's own kind", field, kind)
		case slices.Contains(known, kind):
			return nil, fmt.Errorf("field %s lists %s, which is listed already", field, kind)
		}
		known, all, k.watched = append(known, gvk.GroupKind()), append(all, gvk), append(k.watched, o)
		_, k.partial[gvk] = o.(*metav1.PartialObjectMetadata)
		if whole != nil {
			k.exact[gvk] = whole.fields
		}
	}
	return all, nil
}

// exactFields returns the names of all fields of some kind that are the operator's whole.
func (k *kinds) exactFields() []string {
	return slices.Concat(slices.Collect(maps.Values(k.exact))...)
}

// others returns every kind but the primary, in the order of watched.
func (k *kinds) others() []schema.GroupVersionKind { return slices.Concat(k.owned, k.observed) }

// isPrimary reports whether the reference is to an object of the operator's kind, in whichever version.
func (k *kinds) isPrimary(ref *metav1.OwnerReference) bool {
	if ref == nil || ref.Kind != k.primary.Kind {
		return false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == k.primary.Group
}

// namespaced reports whether objects of that kind are in a namespace, as most are: so it is assumed of a kind that the API
// server does not know.
func (k *kinds) namespaced(gvk schema.GroupVersionKind) bool {
	if k.missing(gvk) { // to ask would be a request
		return true
	}
	if known, ok := k.scopes.Load(gvk); ok { // it is asked of each child in each pass, and never changes
		return known == meta.RESTScopeNameNamespace
	}
	mapping, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return true
	}
	k.scopes.Store(gvk, mapping.Scope.Name())
	return mapping.Scope.Name() == meta.RESTScopeNameNamespace
}

// place gives an object that names no namespace the one of home. What is of a kind without namespaces is in none, whatever
// it says: so the API server understands it.
func (k *kinds) place(o client.Object, gvk schema.GroupVersionKind, home string) {
	switch {
	case !k.namespaced(gvk):
		o.SetNamespace("")
	case o.GetNamespace() == "":
		o.SetNamespace(home)
	}
}

// intent reads what a step wants of its object, together with what makes it a child of the parent.
func (k *kinds) intent(ctx context.Context, parent client.Object, s *step) (*apply.Intent, error) {
	owner := apply.ControlledBy(parent)
	if s.remote || s.kept {
		owner = apply.LabeledBy(parent)
	}
	opts := append([]apply.Option{
		owner, apply.WithLabel(ManagedByLabel, k.operator), apply.ExclusiveMaps(k.exact[s.gvk]...),
	}, s.intent...)
	if s.hold {
		opts = append(opts, apply.WithFinalizer(k.finalizer))
	}
	if s.fill != nil {
		opts = append(opts, apply.ContentFrom(func() (client.Object, error) { return s.fill(ctx) }))
	}
	return apply.NewIntent(s.desired, k.scheme, opts...)
}
