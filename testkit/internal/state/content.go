package state

import (
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// DesiredContent returns an object's content without metadata, status and empty fields.
func DesiredContent(u *unstructured.Unstructured) any {
	fields := maps.Clone(u.Object)
	delete(fields, "metadata")
	delete(fields, "status")
	return withoutEmpty(fields)
}

// withoutEmpty returns a value without its empty fields, or nil if none is left.
func withoutEmpty(v any) any {
	fields, ok := v.(map[string]any)
	if !ok {
		if value := reflect.ValueOf(v); !value.IsValid() || value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0 {
			return nil
		}
		return v
	}
	out := map[string]any{}
	for name, x := range fields {
		if x = withoutEmpty(x); x != nil {
			out[name] = x
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
