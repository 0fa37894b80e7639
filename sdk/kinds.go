package sdk

import (
	"fmt"
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
	owned     []schema.GroupVersionKind        // in the order in which the operator lists them
	partial   map[schema.GroupVersionKind]bool // of which only metadata is watched
	watched   []client.Object                  // one of each owned kind, for the caches

	scopes    sync.Map     // kinds that were asked for, and whether they are in a namespace
	unwatched sync.Map     // owned kinds that are missing, and why
	arrived   atomic.Int64 // how many of them came
}

func (op *Operator[T]) kinds(scheme *runtime.Scheme, mapper meta.RESTMapper) (*kinds, error) {
	k, err := newKinds(op.Name, scheme, mapper, object.New[T](), op.Owns)
	if err == nil {
		k.finalizer = op.finalizerName()
	}
	return k, err
}

func newKinds(
	operator string, scheme *runtime.Scheme, mapper meta.RESTMapper, primary client.Object, owned []client.Object,
) (*kinds, error) {
	k := &kinds{operator: operator, scheme: scheme, mapper: mapper, partial: map[schema.GroupVersionKind]bool{}}
	var err error
	if k.primary, err = apiutil.GVKForObject(primary, scheme); err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", primary, err)
	}
	if err := k.own(owned); err != nil {
		return nil, fmt.Errorf("operator %q is not usable: %w", operator, err)
	}
	return k, nil
}

// own takes in the kinds that the operator owns. Each can be listed once: there is one informer of a kind, and one object
// must not be seen as two.
func (k *kinds) own(owned []client.Object) error {
	listed := map[schema.GroupKind]bool{}
	for i, o := range owned {
		if o == nil {
			return fmt.Errorf("item %d of field Owns is nil", i)
		}
		o, gvk, err := watched(o, k.scheme)
		switch kind := gvk.GroupKind(); {
		case err != nil:
			return fmt.Errorf("finding the kind of %T, which Owns lists: %w", o, err)
		case kind == k.primary.GroupKind():
			return fmt.Errorf("field Owns lists %s, which is the operator's own kind", kind)
		case listed[kind]:
			return fmt.Errorf("field Owns lists %s twice", kind)
		}
		listed[gvk.GroupKind()] = true
		k.owned, k.watched = append(k.owned, gvk), append(k.watched, o)
		_, k.partial[gvk] = o.(*metav1.PartialObjectMetadata)
	}
	return nil
}

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
func (k *kinds) intent(parent client.Object, s *step) (*apply.Intent, error) {
	owner := apply.ControlledBy(parent)
	if s.remote {
		owner = apply.MarkedBy(parent)
	}
	opts := append([]apply.Option{owner, apply.WithLabel(ManagedByLabel, k.operator)}, s.intent...)
	if s.hold {
		opts = append(opts, apply.WithFinalizer(k.finalizer))
	}
	return apply.NewIntent(s.desired, k.scheme, opts...)
}
