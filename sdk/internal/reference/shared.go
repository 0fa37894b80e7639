package reference

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// selections are the targets of one user that one watch serves, with the selector to evaluate in memory.
type selections map[Target]labels.Selector

// matchAny reports whether a selection matches one of the objects. An object that is known by its key alone matches.
func (s selections) matchAny(objects []any) bool {
	for _, x := range objects {
		if unknown, ok := x.(toolscache.DeletedFinalStateUnknown); ok {
			x = unknown.Obj
		}
		o, ok := x.(client.Object)
		if !ok {
			return true
		}
		for _, selector := range s {
			if selector.Matches(labels.Set(o.GetLabels())) {
				return true
			}
		}
	}
	return false
}

// use records that the user has the target, and returns the selector to evaluate in memory.
func (ref *reference) use(user types.NamespacedName, t Target) (labels.Selector, error) {
	if selector, ok := ref.users[user][t]; ok {
		return selector, nil
	}
	selector := labels.Everything() // the API server evaluates the labels of a target that is not shared
	if t.Shared {
		var err error
		if selector, err = labels.Parse(t.Labels); err != nil {
			return nil, fmt.Errorf("reading the labels of %s: %w", t, err)
		}
	}
	if ref.users[user] == nil {
		ref.users[user] = selections{}
	}
	ref.users[user][t] = selector
	return selector, nil
}

// maxReducedLabels is the size in bytes of the labels of one object that a reduced watch keeps. The API server limits only
// the size of the whole object.
const maxReducedLabels = 16 << 10

// transform returns the transform of the watch, nil for none. A watch of a single object keeps everything, because the
// record of its field managers may decide whether it is adopted. A reduced watch keeps names, versions, times, labels, the
// controller and some annotations, so that its memory depends on the number of objects and not on their metadata.
func (t Target) transform() toolscache.TransformFunc {
	switch {
	case t.Reduced:
	case t.Key.Name != "":
		return nil
	default:
		return cache.TransformStripManagedFields()
	}
	kept := strings.Split(t.Annotations, ",")
	return func(x any) (any, error) {
		o, ok := x.(*metav1.PartialObjectMetadata)
		if !ok {
			return nil, fmt.Errorf("reading %s: a reduced watch is for metadata and got a %T", t, x)
		}
		reduced := &metav1.PartialObjectMetadata{TypeMeta: o.TypeMeta, ObjectMeta: metav1.ObjectMeta{
			Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion, Generation: o.Generation,
			CreationTimestamp: o.CreationTimestamp, DeletionTimestamp: o.DeletionTimestamp,
		}}
		if size(o.Labels) <= maxReducedLabels {
			reduced.Labels = o.Labels
		}
		for key, value := range o.Annotations {
			if slices.Contains(kept, key) {
				metav1.SetMetaDataAnnotation(&reduced.ObjectMeta, key, value)
			}
		}
		if controller := metav1.GetControllerOf(o); controller != nil {
			reduced.OwnerReferences = []metav1.OwnerReference{*controller}
		}
		return reduced, nil
	}
}

func size(entries map[string]string) (n int) {
	for key, value := range entries {
		n += len(key) + len(value)
	}
	return n
}
