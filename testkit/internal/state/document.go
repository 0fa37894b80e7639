package state

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// digestAnnotation has the digest of the fields that an operator of package sdk set. These contain the UID of the owner, so
// the digest differs in each run.
const digestAnnotation = "homeostat.dev/applied"

// Document returns the canonical form of an object as a readable manifest. It contains the fields that have a manager,
// without generated values, and the status if requested. Conditions keep their reasons and messages, unlike in a [State],
// but not their times.
func (n *NameMap) Document(u *unstructured.Unstructured, status bool) map[string]any {
	o := runtime.DeepCopyJSON(u.Object)
	for _, path := range clusterFields {
		unstructured.RemoveNestedField(o, path...)
	}
	keepSetFields(u, o)
	if !status {
		delete(o, "status")
	} else if list, ok, _ := unstructured.NestedSlice(o, "status", "conditions"); ok {
		_ = unstructured.SetNestedSlice(o, withoutTimes(list), "status", "conditions")
	}
	metadata := map[string]any{"name": n.nameOf(u)}
	if labels := clean(u.GetLabels()); len(labels) > 0 {
		metadata["labels"] = labels
	}
	annotations := clean(u.GetAnnotations())
	if _, ok := annotations[digestAnnotation]; ok {
		annotations[digestAnnotation] = "$DIGEST"
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if finalizers := u.GetFinalizers(); len(finalizers) > 0 {
		metadata["finalizers"] = stringsOf(finalizers)
	}
	if u.GetDeletionTimestamp() != nil {
		metadata["deletionTimestamp"] = "$TIME"
	}
	if owners := u.GetOwnerReferences(); len(owners) > 0 {
		list, _, _ := unstructured.NestedSlice(u.Object, "metadata", "ownerReferences")
		for _, item := range list {
			if owner, ok := item.(map[string]any); ok {
				delete(owner, "uid")
			}
		}
		metadata["ownerReferences"] = list
	}
	o["metadata"] = metadata
	o["apiVersion"] = u.GetAPIVersion()
	o["kind"] = u.GetKind()
	masked, _ := n.canonicalValue(o, u.GetGeneration()).(map[string]any)
	return masked
}

// nameOf returns the object's name with placeholders for generated parts.
func (n *NameMap) nameOf(u *unstructured.Unstructured) string {
	_, name, found := strings.Cut(n.Of(u.GetUID()), "/")
	if !found {
		return u.GetName()
	}
	return name
}

// withoutTimes removes the times of conditions and sorts the conditions, because their order has no meaning.
func withoutTimes(list []any) []any {
	for _, item := range list {
		if c, ok := item.(map[string]any); ok {
			delete(c, "lastTransitionTime")
			delete(c, "lastProbeTime")
		}
	}
	slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(typeOf(a), typeOf(b)) })
	return list
}

func typeOf(condition any) string {
	c, _ := condition.(map[string]any)
	return fmt.Sprint(c["type"])
}
