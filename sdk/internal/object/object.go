// Package object has operations on arbitrary API objects that need reflection.
package object

import (
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Empty returns a new object of the same Go type and kind. Responses are decoded into such an object: decoding into an
// object with values would keep every field that the response no longer has.
func Empty[T client.Object](like T) T {
	o, _ := reflect.TypeAssert[T](reflect.New(reflect.TypeOf(like).Elem())) // a new value of the type T is a T
	o.GetObjectKind().SetGroupVersionKind(like.GetObjectKind().GroupVersionKind())
	return o
}

// New returns a new object of the Go type T, which must be a pointer to a struct.
func New[T client.Object]() T {
	o, _ := reflect.TypeAssert[T](reflect.New(reflect.TypeFor[T]().Elem())) // a new value of the type T is a T
	return o
}

// Assign makes *to a shallow copy of *from. Both must have the same Go type.
func Assign(to, from client.Object) {
	reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem())
}

// Shallow returns a shallow copy of a typed object.
func Shallow(o client.Object) client.Object {
	c := Empty(o)
	Assign(c, o)
	return c
}

// WithoutTemplates returns a shallow copy of a typed object without the parts that are irrelevant for its readiness: pod and
// volume claim templates, and metadata.
func WithoutTemplates(o client.Object) client.Object {
	o = Shallow(o)
	o.SetManagedFields(nil)
	o.SetOwnerReferences(nil)
	o.SetLabels(nil)
	o.SetAnnotations(nil)
	spec := reflect.ValueOf(o).Elem().FieldByName("Spec")
	for _, name := range []string{"Template", "VolumeClaimTemplates"} {
		if spec.Kind() == reflect.Struct {
			if f := spec.FieldByName(name); f.IsValid() {
				f.SetZero()
			}
		}
	}
	return o
}

// Copy returns a deep copy of the object.
func Copy[T client.Object](o T) T {
	c, _ := o.DeepCopyObject().(T) // a copy has the type of its original
	return c
}

// Status returns the value of the field with the JSON name "status", or nil if there is none.
func Status(o client.Object) any {
	v := reflect.ValueOf(o).Elem()
	index := statusField(v.Type())
	if index < 0 {
		return nil
	}
	return v.Field(index).Interface()
}

// SetStatus replaces the status of to by that of from, which must have the same Go type. The status is shared, not copied.
func SetStatus(to, from client.Object) {
	v := reflect.ValueOf(to).Elem()
	if index := statusField(v.Type()); index >= 0 {
		v.Field(index).Set(reflect.ValueOf(from).Elem().Field(index))
	}
}

var statusFields sync.Map // reflect.Type -> int

func statusField(t reflect.Type) int {
	if known, ok := statusFields.Load(t); ok {
		return known.(int) //nolint:forcetypeassert // only this function fills the map.
	}
	index := -1
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name == "status" {
			index = i
		}
	}
	statusFields.Store(t, index)
	return index
}

// Metadata returns a deep copy of the metadata of an object.
func Metadata(o client.Object, gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	partial := meta.AsPartialObjectMetadata(o)
	partial.SetGroupVersionKind(gvk)
	return partial.DeepCopy()
}

// WithMetadata returns a new object of like's type that has only that metadata.
func WithMetadata[T client.Object](like T, partial *metav1.PartialObjectMetadata) T {
	o := Empty(like)
	partial = partial.DeepCopy()
	if u, ok := any(o).(*unstructured.Unstructured); ok {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(partial)
		if err == nil { // metadata can always be converted
			u.Object = fields
		}
		return o
	}
	reflect.ValueOf(o).Elem().FieldByName("ObjectMeta").Set(reflect.ValueOf(partial.ObjectMeta))
	return o
}
