package conversion

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// items is the element of a path that stands for the items of a list.
const items = "[]"

// listKeys are [Version.ListKeys].
type listKeys map[string][]string

// of returns the keys of the items of the list at a path, whose elements are names of fields, keys of maps, and items.
func (k listKeys) of(p path) []string {
	if len(k) == 0 {
		return nil
	}
	for pattern, keys := range k {
		if matches(strings.Split(strings.ReplaceAll(pattern, items, "."+items), "."), p) {
			return keys
		}
	}
	return nil
}

func matches(pattern []string, p path) bool {
	return len(pattern) == len(p) &&
		slices.EqualFunc(pattern, p, func(a, b string) bool { return a == b || a == "*" && b != items })
}

// itemName returns the name of a list item in a path, or "" if it has none.
func itemName(item any, keys []string) string {
	m, ok := item.(map[string]any)
	if !ok || len(keys) == 0 {
		return ""
	}
	values := make([]any, len(keys))
	for i, key := range keys {
		values[i] = m[key]
	}
	data, err := json.Marshal(values)
	if err != nil {
		return ""
	}
	return string(data)
}

// difference returns what an object has in comparison with a counterpart, without the metadata. The counterpart was
// converted from a version that does not have the vanishing objects.
func difference(object, counterpart map[string]any, keys listKeys, vanishing []path) record {
	r := record{}
	d := differ{record: r, keys: keys, vanishing: vanishing}
	for _, name := range union(object, counterpart) {
		if name != "metadata" && name != "apiVersion" && name != "kind" {
			d.field(object, counterpart, name, path{name}, path{name}, 0)
		}
	}
	return r
}

// within reports whether all entries are in another record too.
func (r record) within(other record) bool {
	for pointer, e := range r {
		o, ok := other[pointer]
		if !ok || o.Shown != e.Shown || !bytes.Equal(o.Value, e.Value) {
			return false
		}
	}
	return true
}

type differ struct {
	record    record
	keys      listKeys
	vanishing []path
}

// around returns the number of objects around a field that the other version does not have, or at least the given number.
// They may be created when the field is restored: their absence does not mean that a client has removed them.
func (d differ) around(pattern path, missing int) int {
	for _, v := range d.vanishing {
		if len(v) < len(pattern) && slices.EqualFunc(v, pattern[:len(v)], func(a, b string) bool { return a == b || a == items }) {
			missing = max(missing, len(pattern)-len(v))
		}
	}
	return missing
}

// field compares one field of two objects. The path names list items, and in the pattern they are all alike. missing is the
// number of objects around the field that the counterpart does not have.
func (d differ) field(object, counterpart map[string]any, name string, p, pattern path, missing int) {
	v, has := object[name]
	c, shown := counterpart[name]
	if has && !shown {
		if m, ok := v.(map[string]any); ok && len(m) > 0 {
			for key := range m {
				d.field(m, nil, key, child(p, key), child(pattern, key), missing+1)
			}
			return
		}
	}
	if has && shown {
		d.value(v, c, p, pattern)
		return
	}
	e := entry{New: d.around(pattern, missing)}
	if shown {
		e.Shown = digest(c)
	}
	if has {
		e.Value = encode(v)
	}
	d.record[pointer(p)] = e
}

func (d differ) value(v, c any, p, pattern path) {
	switch v := v.(type) {
	case map[string]any:
		if c, ok := c.(map[string]any); ok {
			for _, key := range union(v, c) {
				d.field(v, c, key, child(p, key), child(pattern, key), 0)
			}
			return
		}
	case []any:
		if c, ok := c.([]any); ok && d.sameItems(v, c, pattern) {
			for i, item := range v {
				name := itemName(item, d.keys.of(pattern))
				d.value(item, c[i], child(p, name), child(pattern, items))
			}
			return
		}
	}
	if !equal(v, c) {
		d.record[pointer(p)] = entry{Value: encode(v), Shown: digest(c), New: d.around(pattern, 0)}
	}
}

// sameItems reports whether two lists have the same items by their keys, in the same order, and no two with equal keys.
func (d differ) sameItems(a, b []any, pattern path) bool {
	keys := d.keys.of(pattern)
	if keys == nil || len(a) != len(b) {
		return false
	}
	seen := map[string]bool{}
	for i := range a {
		name := itemName(a[i], keys)
		if name == "" || seen[name] || name != itemName(b[i], keys) {
			return false
		}
		seen[name] = true
	}
	return true
}

func child(p path, name string) path { return append(slices.Clip(p), name) }

func union(a, b map[string]any) []string {
	names := make([]string, 0, len(a))
	for name := range a {
		names = append(names, name)
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}

func encode(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return nil // JSON content can be encoded
	}
	return data
}

// equal compares JSON content. A number is equal to the same number of another type.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, v := range a {
			if w, ok := b[key]; !ok || !equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case int64:
		if b, ok := b.(float64); ok {
			return float64(a) == b
		}
	case float64:
		if b, ok := b.(int64); ok {
			return a == float64(b)
		}
	}
	return a == b
}
