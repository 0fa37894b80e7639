package function

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// Object is an object of any kind with the shared status. All fields that Go does not know are kept.
type Object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	// Fields are the fields at the top except apiVersion, kind, metadata and status.
	Fields map[string]any `json:"-"`
	Status Status         `json:"status"`
}

// Status is a status with any fields.
type Status struct {
	conditions.Status `json:",inline"`
	// Fields are the fields except observedGeneration and conditions.
	Fields map[string]any `json:"-"`
}

// ObjectList is a list of objects.
type ObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Object `json:"items"`
}

// CommonStatus implements sdk.Object.
func (o *Object) CommonStatus() *conditions.Status { return &o.Status.Status }

// DeepCopyObject implements runtime.Object.
func (o *Object) DeepCopyObject() runtime.Object {
	c := &Object{TypeMeta: o.TypeMeta, Fields: runtime.DeepCopyJSON(o.Fields)}
	o.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	o.Status.Status.DeepCopyInto(&c.Status.Status)
	c.Status.Fields = runtime.DeepCopyJSON(o.Status.Fields)
	return c
}

// DeepCopyObject implements runtime.Object.
func (l *ObjectList) DeepCopyObject() runtime.Object {
	c := &ObjectList{TypeMeta: l.TypeMeta, Items: make([]Object, len(l.Items))}
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	for i := range l.Items {
		if o, ok := l.Items[i].DeepCopyObject().(*Object); ok {
			c.Items[i] = *o
		}
	}
	return c
}

// knownFields are the fields of an [Object] with a Go type.
type knownFields struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            Status `json:"status"`
}

// MarshalJSON implements json.Marshaler.
func (o *Object) MarshalJSON() ([]byte, error) {
	return marshalWith(o.Fields, knownFields{TypeMeta: o.TypeMeta, ObjectMeta: o.ObjectMeta, Status: o.Status})
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Object) UnmarshalJSON(data []byte) error {
	var known knownFields
	fields, err := unmarshalWith(data, &known, "apiVersion", "kind", "metadata", "status")
	*o = Object{TypeMeta: known.TypeMeta, ObjectMeta: known.ObjectMeta, Status: known.Status, Fields: fields}
	return err
}

// MarshalJSON implements json.Marshaler.
func (s Status) MarshalJSON() ([]byte, error) { return marshalWith(s.Fields, s.Status) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Status) UnmarshalJSON(data []byte) error {
	var known conditions.Status
	fields, err := unmarshalWith(data, &known, engineFields...)
	*s = Status{Status: known, Fields: fields}
	return err
}

// engineFields are the fields of a status that the engine writes.
var engineFields = []string{"observedGeneration", "conditions"}

// marshalWith encodes a struct, with additional fields.
func marshalWith(fields map[string]any, known any) ([]byte, error) {
	data, err := utiljson.Marshal(known)
	if err != nil || len(fields) == 0 {
		return data, err
	}
	rest, err := utiljson.Marshal(fields)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(data, []byte("{}")) {
		return rest, nil
	}
	return append(append(data[:len(data)-1], ','), rest[1:]...), nil // both are objects without common fields
}

// unmarshalWith decodes a struct, and returns the fields that are not named.
func unmarshalWith(data []byte, known any, names ...string) (map[string]any, error) {
	if err := utiljson.Unmarshal(data, known); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	var fields map[string]any
	if err := utiljson.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	maps.DeleteFunc(fields, func(name string, _ any) bool { return slices.Contains(names, name) })
	return fields, nil
}
