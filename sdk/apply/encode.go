package apply

import (
	"cmp"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// encode returns the set fields of a Go object as JSON, by the rules of [NewIntent], without its kind, metadata and status.
// It works on the Go value, because the JSON form does not distinguish "not set" from "set to zero". Equal objects have
// equal encodings.
func encode(o any, zero map[string]bool) ([]byte, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return encodeUnstructured(u)
	}
	v := reflect.ValueOf(o)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("encoding %T: it is not a pointer to a struct", o)
	}
	e := encoder{out: make([]byte, 0, typicalSize), zero: zero, trackPaths: len(zero) > 0, written: map[string]bool{}}
	e.structure(v.Elem(), "", encodedSeparately)
	if e.err != nil && !e.trackPaths { // repeated with paths for the error message
		e = encoder{trackPaths: true}
		e.structure(v.Elem(), "", encodedSeparately)
	}
	for _, path := range slices.Sorted(maps.Keys(zero)) {
		if !e.written[path] {
			e.fail(fmt.Errorf("zero value of field %q: %T has no such field", path, o))
		}
	}
	return e.out, e.err
}

// typicalSize is the approximate size in bytes of an applied object.
const typicalSize = 512

// encodedSeparately reports whether encode leaves out a top-level field.
func encodedSeparately(name string) bool {
	switch name {
	case "apiVersion", "kind", "metadata", "status":
		return true
	default:
		return false
	}
}

// encodeUnstructured encodes all fields, because all of them are set. The round trip through JSON converts the numbers of a
// Go literal to JSON numbers.
func encodeUnstructured(u *unstructured.Unstructured) ([]byte, error) {
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding an unstructured object: %w", err)
	}
	fields := decode(raw)
	maps.DeleteFunc(fields, func(name string, _ any) bool { return encodedSeparately(name) })
	dropNulls(fields)
	return json.Marshal(fields)
}

// decode decodes an object that was encoded here.
func decode(raw []byte) map[string]any {
	fields := map[string]any{}
	_ = utiljson.Unmarshal(raw, &fields)
	return fields
}

// encoder encodes a Go value. It keeps the first error, so that its methods need no error results.
type encoder struct {
	out        []byte
	zero       map[string]bool
	written    map[string]bool // the paths in zero that exist
	trackPaths bool            // paths are needed; tracking them takes half of the time
	err        error
}

// value writes v if it is intended, and reports whether it did. A value with meant is written even if it is zero.
func (e *encoder) value(v reflect.Value, path string, meant bool) bool {
	if v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		return e.target(v, path)
	}
	zero := e.zero[path]
	meant = meant || zero
	if !meant && v.IsZero() && !e.hasZeroBelow(path) {
		return false
	}
	before := len(e.out)
	e.write(v, path)
	drop := false
	switch string(e.out[before:]) {
	case "null":
		drop = true
	case "{}", "[]", `""`:
		drop = !meant
	}
	if drop {
		e.out = e.out[:before]
	} else if zero {
		e.written[path] = true
	}
	return !drop
}

// target writes the target of a pointer, or the zero value below it if that is intended.
func (e *encoder) target(v reflect.Value, path string) bool {
	switch zero := e.zero[path]; {
	case !v.IsNil():
		return e.value(v.Elem(), path, true)
	case v.Kind() == reflect.Pointer && (zero || e.hasZeroBelow(path)):
		return e.value(reflect.Zero(v.Type().Elem()), path, zero)
	default:
		return false
	}
}

func (e *encoder) write(v reflect.Value, path string) {
	switch kind := v.Kind(); {
	case hasMarshaler(v.Type()):
		e.marshaled(v)
	case kind == reflect.Struct:
		e.structure(v, path, nil)
	case kind == reflect.Map:
		e.mapping(v, path)
	case kind == reflect.Slice, kind == reflect.Array:
		e.list(v, path)
	default:
		e.scalar(v, path)
	}
}

// hasZeroBelow reports whether the zero value of a field below this path is intended.
func (e *encoder) hasZeroBelow(path string) bool {
	for p := range e.zero {
		if strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

func (e *encoder) scalar(v reflect.Value, path string) {
	switch {
	case v.Kind() == reflect.String:
		e.text(v.String())
	case v.Kind() == reflect.Bool:
		e.out = strconv.AppendBool(e.out, v.Bool())
	case v.CanInt():
		e.out = strconv.AppendInt(e.out, v.Int(), 10)
	case v.CanUint() && v.Uint() <= math.MaxInt64:
		e.out = strconv.AppendUint(e.out, v.Uint(), 10)
	case v.CanFloat() && !math.IsNaN(v.Float()) && !math.IsInf(v.Float(), 0):
		e.out = strconv.AppendFloat(e.out, v.Float(), 'g', -1, 64)
	default:
		e.fail(fmt.Errorf("encoding field %s: %s %v has no JSON form", path, v.Type(), v))
	}
}

func (e *encoder) text(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			raw, err := json.Marshal(s)
			e.out = append(e.out, raw...)
			e.fail(err)
			return
		}
	}
	e.out = append(append(append(e.out, '"'), s...), '"')
}

// entry writes one entry, with a comma at its end, if its value is intended.
func (e *encoder) entry(name string, v reflect.Value, path string, meant bool) {
	before := len(e.out)
	e.text(name)
	e.out = append(e.out, ':')
	if !e.value(v, e.join(path, name), meant) {
		e.out = e.out[:before]
		return
	}
	e.out = append(e.out, ',')
}

// close ends a list of entries or items and removes the last comma.
func (e *encoder) close(end byte) {
	if last := len(e.out) - 1; e.out[last] == ',' {
		e.out = e.out[:last]
	}
	e.out = append(e.out, end)
}

func (e *encoder) structure(v reflect.Value, path string, skip func(string) bool) {
	e.out = append(e.out, '{')
	for _, f := range fieldsOf(v.Type()) {
		fv, err := v.FieldByIndexErr(f.index)
		if err != nil || skip != nil && skip(f.name) || !e.trackPaths && fv.IsZero() {
			continue // the error means a nil pointer to an embedded struct
		}
		e.entry(f.name, fv, path, false)
	}
	e.close('}')
}

func (e *encoder) mapping(v reflect.Value, path string) {
	if v.Type().Key().Kind() != reflect.String {
		e.fail(fmt.Errorf("encoding field %s: keys of type %s have no JSON form", path, v.Type().Key()))
	}
	e.out = append(e.out, '{')
	defer e.close('}')
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		e.entry(key.String(), v.MapIndex(key), path, true)
	}
}

func (e *encoder) list(v reflect.Value, path string) {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		e.text(base64.StdEncoding.EncodeToString(v.Bytes()))
		return
	}
	e.out = append(e.out, '[')
	for i := range v.Len() {
		if e.value(v.Index(i), e.join(path, "[]"), true) {
			e.out = append(e.out, ',')
		}
	}
	e.close(']')
}

// marshaled writes a value of a type with its own JSON form, such as a quantity or a time.
func (e *encoder) marshaled(v reflect.Value) {
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	raw, err := json.Marshal(p.Interface())
	if err != nil {
		e.fail(fmt.Errorf("encoding %s: %w", v.Type(), err))
	}
	e.out = append(e.out, raw...)
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *encoder) join(path, name string) string {
	switch {
	case !e.trackPaths:
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

// field is a field of a struct or of an embedded struct.
type field struct {
	index []int
	name  string
}

// Both caches grow with the number of Go types in the API, not with objects.
var (
	structFields sync.Map // reflect.Type -> []field
	marshalTypes sync.Map // reflect.Type -> bool
)

func hasMarshaler(t reflect.Type) bool {
	if known, ok := marshalTypes.Load(t); ok {
		return known.(bool) //nolint:forcetypeassert // only this function fills the map.
	}
	is := slices.ContainsFunc([]reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()},
		reflect.PointerTo(t).Implements)
	marshalTypes.Store(t, is)
	return is
}

// fieldsOf returns the fields with a JSON name. Of two fields with one name the less deeply embedded one is used.
func fieldsOf(t reflect.Type) []field {
	if known, ok := structFields.Load(t); ok {
		return known.([]field) //nolint:forcetypeassert // only this function fills the map.
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch inner := f.Type; {
		case name == "-" || !f.IsExported():
		case strings.Contains(opts, "inline") || f.Anonymous && name == "":
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			for _, below := range fieldsOf(inner) {
				fields = append(fields, field{index: append([]int{i}, below.index...), name: below.name})
			}
		default:
			fields = append(fields, field{index: []int{i}, name: cmp.Or(name, f.Name)})
		}
	}
	fields = slices.DeleteFunc(slices.Clone(fields), func(f field) bool {
		return slices.ContainsFunc(fields, func(other field) bool {
			return other.name == f.name && len(other.index) < len(f.index)
		})
	})
	structFields.Store(t, fields)
	return fields
}
