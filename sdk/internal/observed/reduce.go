package observed

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/homeostat-dev/homeostat/sdk/internal/object"
)

// reduceForeign returns the transform of the cache of children. Everyone who may create objects can give them the
// operator's label, so objects without a parent of the operator's kind are reduced to what identifies them: the memory
// depends on their number, not on their size. An object that becomes a child arrives in full with that event.
func (v *Cache) reduceForeign(transform toolscache.TransformFunc) toolscache.TransformFunc {
	return func(x any) (any, error) {
		x, err := transform(x)
		o, ok := x.(client.Object)
		if err != nil || !ok || v.ParentOf(o).UID != "" {
			return x, err
		}
		if gvk, err := apiutil.GVKForObject(o, v.Scheme); err != nil || slices.Contains(v.Observed, gvk) {
			return x, nil //nolint:nilerr // an object of an unknown kind stays as it is
		}
		reduced := object.Empty(o)
		reduced.SetNamespace(o.GetNamespace())
		reduced.SetName(o.GetName())
		reduced.SetUID(o.GetUID())
		reduced.SetResourceVersion(o.GetResourceVersion())
		reduced.SetDeletionTimestamp(o.GetDeletionTimestamp())
		reduced.SetLabels(map[string]string{ManagedByLabel: v.Operator})
		if controller := metav1.GetControllerOf(o); controller != nil {
			reduced.SetOwnerReferences([]metav1.OwnerReference{*controller})
		}
		return reduced, nil
	}
}
