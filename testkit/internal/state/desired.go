package state

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Desired returns the content of an object that a client may send to create it in another place: the fields that have a
// manager, without the status and without the metadata of the API server.
func Desired(u *unstructured.Unstructured) map[string]any {
	o := runtime.DeepCopyJSON(u.Object)
	for _, path := range clusterFields {
		unstructured.RemoveNestedField(o, path...)
	}
	kind, version := o["kind"], o["apiVersion"]
	keepSetFields(u, o)
	o["kind"], o["apiVersion"] = kind, version
	delete(o, "status")
	metadata := map[string]any{}
	from, _ := o["metadata"].(map[string]any)
	for _, name := range []string{"name", "namespace", "labels", "annotations", "finalizers", "ownerReferences"} {
		if v, ok := from[name]; ok {
			metadata[name] = v
		}
	}
	o["metadata"] = metadata
	return o
}

// IsSuspended reports whether a content asks its operator to do nothing: a field, a label or an annotation such as
// spec.suspend or example.com/paused is true.
func IsSuspended(content map[string]any) bool {
	for name, v := range content {
		switch v := v.(type) {
		case map[string]any:
			if IsSuspended(v) {
				return true
			}
		case bool, string:
			if (v == true || v == "true") && slices.ContainsFunc(words(name), func(word string) bool { return suspendWords[word] }) {
				return true
			}
		}
	}
	return false
}

var suspendWords = map[string]bool{
	"pause": true, "paused": true, "suspend": true, "suspended": true, "disabled": true, "unmanaged": true,
}

// MergePatch returns a JSON merge patch that turns a into b. It is empty for equal values.
func MergePatch(a, b map[string]any) map[string]any {
	patch := map[string]any{}
	for name := range a {
		if _, ok := b[name]; !ok {
			patch[name] = nil
		}
	}
	for name, y := range b {
		x, ok := a[name]
		from, fromMap := x.(map[string]any)
		to, toMap := y.(map[string]any)
		switch {
		case ok && fromMap && toMap:
			if inner := MergePatch(from, to); len(inner) > 0 {
				patch[name] = inner
			}
		case !ok || !reflect.DeepEqual(x, y):
			patch[name] = y
		}
	}
	return patch
}

// ApplyMergePatch returns the value with a JSON merge patch applied. The value is not changed.
func ApplyMergePatch(value, patch map[string]any) map[string]any {
	out := maps.Clone(value)
	if out == nil {
		out = map[string]any{}
	}
	for name, change := range patch {
		inner, isMap := change.(map[string]any)
		switch {
		case change == nil:
			delete(out, name)
		case isMap:
			below, _ := out[name].(map[string]any)
			out[name] = ApplyMergePatch(below, inner)
		default:
			out[name] = change
		}
	}
	return out
}
