package schema

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// newKey is the key that is added to maps, and the value of unrestricted strings.
const newKey = "testkit"

// maxGeneratedItems bounds the number of items of a generated list, even if the schema requires more.
const maxGeneratedItems = 32

// minimal returns the smallest value that the node allows and that can contain a property called want. It returns
// Absent if none is found. The caller owns the value.
func (n *node) minimal(want string) any {
	if value := n.Default.Object; value != nil && want == "" {
		return runtime.DeepCopyJSONValue(value)
	}
	l := n.limits
	if want != "" {
		l = n.limitsFor(want)
	}
	if len(l.enum) > 0 {
		return runtime.DeepCopyJSONValue(l.enum[0])
	}
	switch n.kind() {
	case typeObject:
		return n.minimalObject(l)
	case typeArray:
		return n.minimalArray(l)
	case typeAny:
		return map[string]any{}
	default:
		if values := n.scalars(Absent); len(values) > 0 {
			return values[0].value
		}
		return Absent
	}
}

func (n *node) minimalObject(l limits) any {
	content := map[string]any{}
	if n.XEmbeddedResource {
		content["apiVersion"], content["kind"] = "v1", "ConfigMap"
		content["metadata"] = map[string]any{"name": newKey}
	}
	for _, name := range l.required {
		if _, ok := content[name]; ok {
			continue
		}
		child, ok := n.fields[name]
		if !ok {
			if n.element == nil {
				return Absent
			}
			child = n.element
		}
		value := child.minimal("")
		if value == Absent {
			return Absent
		}
		content[name] = value
	}
	return content
}

func (n *node) minimalArray(l limits) any {
	list := []any{}
	if l.minItems > maxGeneratedItems || n.element == nil {
		return Absent
	}
	for range l.minItems {
		item := n.newItem(list)
		if item == Absent {
			return Absent
		}
		list = append(list, item)
	}
	return list
}

// newItem returns an item that can be added to list. It differs from the present ones if the schema requires that.
func (n *node) newItem(list []any) any {
	item := n.element.minimal("")
	if item == Absent {
		return Absent
	}
	return n.makeUnique(item, list)
}

// makeUnique changes the item so that it can be added to list. It returns Absent if that is impossible.
func (n *node) makeUnique(item any, list []any) any {
	keys := n.keys()
	if len(keys) == 0 {
		if !n.unique() {
			return item
		}
		return n.element.differentValue(item, list)
	}
	content, ok := item.(map[string]any)
	if !ok {
		return Absent
	}
	if !hasSameKeys(content, list, keys) {
		return content
	}
	for _, key := range keys {
		child, ok := n.element.fields[key]
		if !ok {
			continue
		}
		var taken []any
		for _, i := range list {
			taken = append(taken, child.keyOf(i, key))
		}
		if value := child.differentValue(child.keyOf(content, key), taken); value != Absent {
			content[key] = value
			return content
		}
	}
	return Absent
}

// keyOf returns the value of a list's key in an item, or else its default.
func (n *node) keyOf(item any, key string) any {
	value := Path{Field(key)}.Get(item)
	if value == Absent && n.Default.Object != nil {
		return n.Default.Object
	}
	return value
}

func hasSameKeys(content map[string]any, list []any, keys []string) bool {
	for _, item := range list {
		same := true
		for _, key := range keys {
			same = same && reflect.DeepEqual(Path{Field(key)}.Get(item), Path{Field(key)}.Get(content))
		}
		if same {
			return true
		}
	}
	return false
}

// differentValue returns a value like the given one that is not among the taken ones, or Absent.
func (n *node) differentValue(value any, taken []any) any {
	free := func(v any) bool {
		return v != Absent && n.fits(v) && !slices.ContainsFunc(taken, func(t any) bool { return reflect.DeepEqual(v, t) })
	}
	if free(value) {
		return value
	}
	if len(formats[n.limits.format]) == 0 {
		for i := range int64(longestList + maxGeneratedItems) {
			if next := numbered(value, i); free(next) {
				return next
			}
		}
	}
	for _, v := range n.scalars(value) {
		if free(v.value) {
			return v.value
		}
	}
	return Absent
}

// numbered returns the i-th value after one that is in use, as a person would count on.
func numbered(value any, i int64) any {
	switch v := value.(type) {
	case string:
		return strings.TrimRight(v, "-0123456789") + "-" + strconv.FormatInt(i+2, 10)
	case int64:
		if v < math.MaxInt64-i {
			return v + i + 1
		}
	}
	return Absent
}
