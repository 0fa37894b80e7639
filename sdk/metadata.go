package sdk

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// MetadataOnly marks an object in [Operator.Owns]: the operator caches only the metadata of its kind, which is enough to
// detect drift of applied fields, however large the objects are. [Child.Live] and [Live] then return metadata alone. Such a
// child is ready when it exists, or according to [ReadyWhen] on its metadata. [Unmanaged] is rejected, because it needs the
// present value.
func MetadataOnly(o client.Object) client.Object { return &metadataOnly{o} }

type metadataOnly struct{ client.Object }

// ExclusiveMaps marks an object in [Operator.Owns]: for its kind, these maps at the top, for example "data", belong to the
// operator exclusively. Entries of other field managers are removed; other fields stay with their managers.
func ExclusiveMaps(o client.Object, fields ...string) client.Object { return &exclusiveMaps{o, fields} }

type exclusiveMaps struct {
	client.Object
	fields []string
}

// cacheObject returns the object that selects the cache for an item of Owns: an object of its kind, or metadata of its kind.
func cacheObject(o client.Object, scheme *runtime.Scheme) (client.Object, schema.GroupVersionKind, error) {
	if e, ok := o.(*exclusiveMaps); ok {
		o = e.Object
	}
	only, ok := o.(*metadataOnly)
	if !ok {
		gvk, err := apiutil.GVKForObject(o, scheme)
		return o, gvk, err
	}
	gvk, err := apiutil.GVKForObject(only.Object, scheme)
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(gvk)
	return partial, gvk, err
}

// asCached returns the API server's response in the form that the cache has, so that a reconcile reads the same before and
// after the informer has caught up.
func (k *kinds) asCached(gvk schema.GroupVersionKind, o client.Object) client.Object {
	if !k.partial[gvk] {
		return o
	}
	return object.Metadata(o, gvk)
}

// newResponse returns an empty object for the API server's responses about a child: of its type, or metadata if only
// metadata is cached.
func (k *kinds) newResponse(s *plannedChild) client.Object {
	if !k.partial[s.gvk] {
		return object.Empty(s.desired)
	}
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(s.gvk)
	return partial
}

// asType returns a copy of an observed child, or an empty object, as an object of like's type.
func asType[C client.Object](o client.Object, like C) C {
	if o == nil {
		return object.Empty(like)
	}
	if partial, ok := o.(*metav1.PartialObjectMetadata); ok {
		return object.WithMetadata(like, partial)
	}
	c, _ := object.Copy(o).(C) // the cache holds objects of the applied type
	return c
}
