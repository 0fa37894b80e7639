package observed

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// MetadataOnly marks an object of a kind that is cached as metadata only.
func MetadataOnly(o client.Object) client.Object { return &metadataOnly{o} }

type metadataOnly struct{ client.Object }

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

// AsCached returns the API server's response in the form that the cache has, so that a reconcile reads the same before and
// after the informer has caught up.
func (k *Kinds) AsCached(gvk schema.GroupVersionKind, o client.Object) client.Object {
	if !k.Partial[gvk] {
		return o
	}
	return object.Metadata(o, gvk)
}

// NewResponse returns an empty object for the API server's responses about a child: of its type, or metadata if only
// metadata is cached.
func (k *Kinds) NewResponse(gvk schema.GroupVersionKind, like client.Object) client.Object {
	if !k.Partial[gvk] {
		return object.Empty(like)
	}
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(gvk)
	return partial
}

// ExclusiveMaps marks an object of a kind with exclusive maps in these top-level fields.
func ExclusiveMaps(o client.Object, fields ...string) client.Object { return &exclusiveMaps{o, fields} }
