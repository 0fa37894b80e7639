package sdk

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk/apply"
	"github.com/homeostat-dev/homeostat/sdk/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk/internal/object"
	"github.com/homeostat-dev/homeostat/sdk/internal/observed"
	"github.com/homeostat-dev/homeostat/sdk/internal/reference"
)

// MetadataOnly marks an object in [Operator.Owns]: the operator caches only the metadata of its kind, which is enough to
// detect drift of applied fields, however large the objects are. [Child.Live] and [Live] then return metadata alone. Such a
// child is ready when it exists, or according to [ReadyWhen] on its metadata. [Unmanaged] is rejected, because it needs the
// present value.
func MetadataOnly(o client.Object) client.Object { return observed.MetadataOnly(o) }

// ExclusiveMaps marks an object in [Operator.Owns]: for its kind, these maps at the top, for example "data", belong to the
// operator exclusively. Entries of other field managers are removed; other fields stay with their managers.
func ExclusiveMaps(o client.Object, fields ...string) client.Object {
	return observed.ExclusiveMaps(o, fields...)
}

// Derive returns the result of f for an object with known metadata (see [Find]). The object is read in full and f is called
// once for each version of the object and each generation of p.Object. Only the result is cached, so f must not depend on
// anything else. The result is shared between reconciles and is read-only. If the object was replaced or deleted meanwhile,
// the error restarts the reconcile; return it unchanged.
func Derive[C client.Object, V any, T Object](
	ctx context.Context, p *Pass[T], found *metav1.PartialObjectMetadata, f func(full C) V,
) (V, error) {
	var none V
	key := reference.DerivedKey{User: p.Object.GetUID(), UID: found.GetUID()}
	version := found.GetResourceVersion() + " " + strconv.FormatInt(p.Object.GetGeneration(), 10)
	if known, ok := p.record.Derived.Get(key, version).(V); ok {
		return known, nil
	}
	full, err := GetLive[C](ctx, p, found)
	if err != nil {
		return none, err
	}
	v := f(full)
	p.record.Derived.Put(key, version, v)
	return v, nil
}

// GetLive reads an object with known metadata in full, by one request, and caches nothing. The result may be a later
// version. If the object was replaced or deleted meanwhile, the error restarts the reconcile; return it unchanged.
func GetLive[C client.Object, T Object](ctx context.Context, p *Pass[T], found *metav1.PartialObjectMetadata) (C, error) {
	id, full := object.ID{GVK: found.GroupVersionKind(), Key: client.ObjectKeyFromObject(found)}, object.New[C]()
	exists, err := p.record.References.Read(ctx, id, full)
	if err == nil && (!exists || full.GetUID() != found.GetUID()) {
		err = apply.ErrStale
	}
	if err != nil {
		return full, fmt.Errorf("reading %s: %w", id, err)
	}
	return full, nil
}

// ContentFrom replaces the object given to [Apply] by the result of fill when it is sent. Large or secret content is then in
// memory only during a write. Both objects must have the same fields. The given object has a digest (see [Derive]) or
// another distinct value where the content has one; a plan shows it as a digest. Its metadata is the one that is sent. fill
// is called once for each request that writes the child, and only if a write is needed. Its error fails the reconcile, like
// an error of Reconcile; return [apply.ErrStale] if the content has changed meanwhile. The kind must be [MetadataOnly].
func ContentFrom[C client.Object](fill func(ctx context.Context) (C, error)) ApplyOption {
	return func(s *desired.Child) {
		s.Content = func(ctx context.Context) (client.Object, error) { return fill(ctx) }
	}
}
