package sdk

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// MetadataOnly marks an object in [Operator.Owns]: of its kind the operator watches and keeps the metadata alone. It needs
// no more to notice every change of a field that it applied, however large the objects are. [Child.Live] and [Live] then
// return metadata alone, such a child is ready when it exists or as [ReadyWhen] reads its metadata, and [Unmanaged] is refused,
// because it needs the present value.
func MetadataOnly(o client.Object) client.Object { return &metadataOnly{o} }

type metadataOnly struct{ client.Object }

// ExclusiveMaps marks an object in [Operator.Owns]: of its kind, these maps at the top, for example "data", are the operator's
// whole. What others add to them is removed, while other fields are left to those who own them.
func ExclusiveMaps(o client.Object, fields ...string) client.Object { return &exact{o, fields} }

type exact struct {
	client.Object
	fields []string
}

// watched returns what to give a cache that is to watch the kind of an item of Owns: an object of its kind, or of its
// metadata alone.
func watched(o client.Object, scheme *runtime.Scheme) (client.Object, schema.GroupVersionKind, error) {
	if e, ok := o.(*exact); ok {
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

// shown returns the server's answer as the cache would show it, so that a pass sees the same before and after the informer
// has caught up.
func (k *kinds) shown(gvk schema.GroupVersionKind, o client.Object) client.Object {
	if !k.partial[gvk] {
		return o
	}
	return object.Metadata(o, gvk)
}

// answer returns an empty object to decode the server's answers about a child into: of its type or, if no more is watched,
// for metadata alone.
func (k *kinds) answer(s *step) client.Object {
	if !k.partial[s.gvk] {
		return object.Empty(s.desired)
	}
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(s.gvk)
	return partial
}

// asKind returns a copy of what is observed of a child, or an empty object, as an object of the type of like.
func asKind[C client.Object](o client.Object, like C) C {
	if o == nil {
		return object.Empty(like)
	}
	if partial, ok := o.(*metav1.PartialObjectMetadata); ok {
		return object.WithMetadata(like, partial)
	}
	c, _ := object.Copy(o).(C) // the cache holds objects of the type that was applied
	return c
}
