package apply

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// encode turns a Go object into JSON values and keeps only what was set, by the rules of [NewIntent]. It works on the
// Go value and not on its JSON form, because JSON no longer tells "not set" from "set to zero".
func encode(o any, zero map[string]bool) (map[string]any, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return encodeUnstructured(u)
	}
	v := reflect.ValueOf(o)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("encoding %T: it is not a pointer to a struct", o)
	}
	e := encoder{zero: zero, paths: len(zero) > 0}
	fields := e.structure(v.Elem(), "")
	if e.err != nil && !e.paths { // once more, for the sake of the message
		e = encoder{paths: true}
		fields = e.structure(v.Elem(), "")
	}
	for _, path := range slices.Sorted(maps.Keys(zero)) {
		if _, found := fieldPath(strings.Split(path, ".")).get(fields); !found {
			e.fail(fmt.Errorf("zero value of field %q: %T has no such field", path, o))
		}
	}
	return fields, e.err
}

// encodeUnstructured takes the fields as they are, because they were all set. Writing and reading them makes the
// numbers of a Go literal what numbers in JSON are.
func encodeUnstructured(u *unstructured.Unstructured) (map[string]any, error) {
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding an unstructured object: %w", err)
	}
	fields := map[string]any{}
	if err := utiljson.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("encoding an unstructured object: %w", err)
	}
	dropNulls(fields)
	return fields, nil
}

// encoder carries the first error, so that the walk itself reads as a walk.
type encoder struct {
	zero  map[string]bool
	paths bool // where a value is matters; to keep note of that is half of the work
	err   error
}

// value encodes v and reports whether it is intended. A value that is meant stays even if it is zero.
func (e *encoder) value(v reflect.Value, path string, meant bool) (any, bool) { //nolint:cyclop // one case for each kind of value
	zero := e.zero[path]
	if v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		switch {
		case !v.IsNil():
			return e.value(v.Elem(), path, true)
		case v.Kind() == reflect.Pointer && (zero || e.zeroBelow(path)):
			return e.value(reflect.Zero(v.Type().Elem()), path, zero)
		default:
			return nil, false
		}
	}
	meant = meant || zero
	if !meant && v.IsZero() && !e.zeroBelow(path) {
		return nil, false
	}
	if marshals(v.Type()) {
		return e.marshaled(v)
	}
	switch v.Kind() {
	case reflect.Struct:
		fields := e.structure(v, path)
		return fields, meant || len(fields) > 0
	case reflect.Map:
		return e.mapping(v, path), meant || v.Len() > 0
	case reflect.Slice, reflect.Array:
		return e.list(v, path), meant || v.Len() > 0
	default:
		return e.scalar(v, path)
	}
}

// zeroBelow reports whether the zero value of a field below this path is meant.
func (e *encoder) zeroBelow(path string) bool {
	for p := range e.zero {
		if strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

func (e *encoder) scalar(v reflect.Value, path string) (any, bool) {
	switch {
	case v.Kind() == reflect.String:
		return v.String(), true
	case v.Kind() == reflect.Bool:
		return v.Bool(), true
	case v.CanInt():
		return v.Int(), true
	case v.CanUint() && v.Uint() <= math.MaxInt64:
		return int64(v.Uint()), true //nolint:gosec // the line above bounds it.
	case v.CanFloat():
		return v.Float(), true
	default:
		e.fail(fmt.Errorf("encoding field %s: type %s has no JSON form", path, v.Type()))
		return nil, false
	}
}

func (e *encoder) structure(v reflect.Value, path string) map[string]any {
	fields := map[string]any{}
	for _, f := range fieldsOf(v.Type()) {
		fv := v.Field(f.index)
		if f.inline {
			if fv.Kind() == reflect.Pointer {
				if fv.IsNil() {
					continue
				}
				fv = fv.Elem()
			}
			maps.Copy(fields, e.structure(fv, path))
			continue
		}
		if !e.paths && fv.IsZero() {
			continue
		}
		if x, ok := e.value(fv, e.join(path, f.name), false); ok {
			fields[f.name] = x
		}
	}
	return fields
}

func (e *encoder) mapping(v reflect.Value, path string) map[string]any {
	out := make(map[string]any, v.Len())
	if texts, ok := reflect.TypeAssert[map[string]string](v); ok { // labels and the like
		for key, text := range texts {
			out[key] = text
		}
		return out
	}
	for it := v.MapRange(); it.Next(); {
		if it.Key().Kind() != reflect.String {
			e.fail(fmt.Errorf("encoding field %s: keys of type %s have no JSON form", path, it.Key().Type()))
			return nil
		}
		key := it.Key().String()
		if x, ok := e.value(it.Value(), e.join(path, key), true); ok {
			out[key] = x
		}
	}
	return out
}

func (e *encoder) list(v reflect.Value, path string) any {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return base64.StdEncoding.EncodeToString(v.Bytes())
	}
	out := make([]any, 0, v.Len())
	for i := range v.Len() {
		if x, ok := e.value(v.Index(i), e.join(path, "[]"), true); ok {
			out = append(out, x)
		}
	}
	return out
}

// marshaled encodes a type with a JSON form of its own, such as a quantity or a time.
func (e *encoder) marshaled(v reflect.Value) (any, bool) {
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	raw, err := json.Marshal(p.Interface())
	if err != nil {
		e.fail(fmt.Errorf("encoding %s: %w", v.Type(), err))
		return nil, false
	}
	var x any
	if err := utiljson.Unmarshal(raw, &x); err != nil {
		e.fail(fmt.Errorf("encoding %s: %w", v.Type(), err))
	}
	return x, x != nil
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *encoder) join(path, name string) string {
	switch {
	case !e.paths:
		return ""
	case path == "" || name == "[]":
		return path + name
	default:
		return path + "." + name
	}
}

func dropNulls(fields map[string]any) {
	for k, v := range fields {
		switch v := v.(type) {
		case nil:
			delete(fields, k)
		case map[string]any:
			dropNulls(v)
		case []any:
			for _, item := range v {
				if m, ok := item.(map[string]any); ok {
					dropNulls(m)
				}
			}
		}
	}
}

type field struct {
	index  int
	name   string
	inline bool
}

// Both caches grow with the number of Go types in the API, not with objects.
var (
	structFields sync.Map // reflect.Type -> []field
	marshalTypes sync.Map // reflect.Type -> bool
)

func marshals(t reflect.Type) bool {
	if known, ok := marshalTypes.Load(t); ok {
		return known.(bool) //nolint:forcetypeassert // this function alone fills the map.
	}
	marshaler := reflect.TypeFor[json.Marshaler]()
	is := t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
	marshalTypes.Store(t, is)
	return is
}

func fieldsOf(t reflect.Type) []field {
	if known, ok := structFields.Load(t); ok {
		return known.([]field) //nolint:forcetypeassert // this function alone fills the map.
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, opts, _ := strings.Cut(tag, ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		inline := strings.Contains(opts, "inline") || f.Anonymous && name == ""
		if name == "" {
			name = f.Name
		}
		fields = append(fields, field{index: i, name: name, inline: inline})
	}
	structFields.Store(t, fields)
	return fields
}
