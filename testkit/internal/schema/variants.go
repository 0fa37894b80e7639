package schema

import (
	"maps"
	"slices"
)

// variants returns values that a property could have instead of the current one, or instead of being absent. Values
// that suit the property's meaning are first. Some may equal the current value or each other, or may not fit.
func (n *node) variants(current any) []variant {
	var all []variant
	if n.known != nil && n.known.whole != nil {
		all = n.known.whole(n, current)
	}
	if n.known != metadataSchema {
		switch n.kind() {
		case typeObject:
			all = append(all, n.objects(current)...)
		case typeArray:
			all = append(all, n.arrays(current)...)
		case typeAny:
			all = append(all, variant{kind: "add", value: map[string]any{newKey: newKey}}, variant{kind: "text", value: newKey})
		default:
			all = append(all, n.scalars(current)...)
		}
	}
	if n.Nullable && current != nil {
		all = append(all, variant{kind: "null", value: nil})
	}
	if current != Absent && n.steps[len(n.steps)-1] != anyElement {
		all = append(all, variant{kind: "unset", value: Absent})
	}
	return all
}

func (n *node) objects(current any) []variant {
	now, present := current.(map[string]any)
	if !present {
		return n.newObjects()
	}
	all := []variant{{kind: "empty", value: map[string]any{}}, {kind: "minimal", value: n.minimal("")}}
	if n.element != nil {
		all = append(all, n.entries(now)...)
	}
	if n.open() {
		opened := maps.Clone(now)
		opened[newKey] = newKey
		all = append(all, variant{kind: "add-unknown", value: opened})
	}
	return append(all, n.switched(now)...)
}

// newObjects returns the variants for an absent object.
func (n *node) newObjects() []variant {
	all := []variant{{kind: "add", value: n.minimal("")}, {kind: "add-empty", value: map[string]any{}}}
	if n.element != nil {
		if value := n.element.minimal(""); value != Absent {
			all = append(all, variant{kind: "add-entry", value: map[string]any{newKey: value}})
		}
	}
	if content, ok := n.minimal("").(map[string]any); ok && n.open() {
		content[newKey] = newKey
		all = append(all, variant{kind: "add-unknown", value: content})
	}
	return all
}

// entries adds and removes keys of a map.
func (n *node) entries(now map[string]any) []variant {
	var all []variant
	if value := n.element.minimal(""); value != Absent && len(now) < longestList {
		added := maps.Clone(now)
		key := newKey
		for _, taken := added[key]; taken; _, taken = added[key] {
			key += "-2"
		}
		added[key] = value
		all = append(all, variant{kind: "add-entry", value: added})
	}
	keys := slices.Sorted(maps.Keys(now))
	for _, key := range keys[:min(len(keys), maxSites)] {
		removed := maps.Clone(now)
		delete(removed, key)
		all = append(all, variant{kind: "remove:" + key, value: removed})
	}
	return all
}

// switched replaces the only optional property by another one. This switches between mutually exclusive alternatives, a
// change that cannot be made one property at a time.
func (n *node) switched(now map[string]any) []variant {
	var optional []string
	for name := range now {
		_, ok := n.fields[name]
		if ok && (!slices.Contains(n.limits.required, name) || n.excludes(name)) {
			optional = append(optional, name)
		}
	}
	if len(optional) != 1 {
		return nil
	}
	var all []variant
	for _, name := range n.names() {
		child := n.fields[name]
		if name == optional[0] || child.kind() != n.fields[optional[0]].kind() {
			continue
		}
		value := child.minimal("")
		if value == Absent {
			continue
		}
		switched := maps.Clone(now)
		delete(switched, optional[0])
		switched[name] = value
		all = append(all, variant{kind: "switch:" + name, value: switched})
	}
	return all
}

// excludes reports whether the property is one of the alternatives of a oneOf or anyOf.
func (n *node) excludes(name string) bool {
	for _, v := range n.rules("") {
		for _, a := range slices.Concat(v.OneOf, v.AnyOf) {
			if slices.Contains(a.Required, name) {
				return true
			}
		}
	}
	return false
}

func (n *node) arrays(current any) []variant {
	now, present := current.([]any)
	if !present {
		all := []variant{{kind: "add", value: n.minimal("")}, {kind: "add-empty", value: []any{}}}
		if item := n.newItem(nil); item != Absent {
			all = append(all, variant{kind: "add-item", value: []any{item}})
		}
		return all
	}
	var all []variant
	if int64(len(now)) < n.limits.maxItems {
		all = n.pushed(now)
	}
	if len(now) == 0 {
		return all
	}
	last := len(now) - 1
	reversed := slices.Clone(now)
	slices.Reverse(reversed)
	return append(all,
		variant{kind: "pop", value: slices.Clone(now[:last])},
		variant{kind: "shift", value: slices.Clone(now[1:])},
		variant{kind: "only-last", value: []any{now[last]}},
		variant{kind: "reverse", value: reversed},
		variant{kind: "empty", value: []any{}})
}

// pushed appends one item: a new one, or a copy of the last.
func (n *node) pushed(now []any) []variant {
	var all []variant
	if item := n.newItem(now); item != Absent {
		all = append(all, variant{kind: "push", value: append(slices.Clip(now), item)})
	}
	if len(now) == 0 {
		return all
	}
	like := copied(now[len(now)-1])
	if like = n.makeUnique(like, now); like != Absent {
		all = append(all, variant{kind: "duplicate", value: append(slices.Clip(now), like)})
	}
	return all
}
