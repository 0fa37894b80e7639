package apply

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// FieldSet is the set of fields that one manager owns of one object, as recorded by the API server.
type FieldSet struct {
	raw string // FieldsV1, "" if the manager owns nothing
}

// OwnedFields returns the fields of the object that the manager owns through server-side apply.
func OwnedFields(o metav1.Object, manager string) FieldSet {
	for _, entry := range o.GetManagedFields() {
		if isOwn(entry, manager) {
			return FieldSet{raw: entry.FieldsV1.GetRawString()}
		}
	}
	return FieldSet{}
}

// TrimManagedFields returns a transform for an informer that drops metadata.managedFields except the manager's own entry,
// which [FieldManager.Converged] needs. The other entries are most of the size of a small object. Entries of other managers
// are kept if they have a field in one of the exclusive maps (see [ExclusiveMaps]).
func TrimManagedFields(manager string, exact ...string) cache.TransformFunc {
	return func(x any) (any, error) {
		o, ok := x.(metav1.Object)
		if !ok || len(o.GetManagedFields()) == 0 {
			return x, nil
		}
		var kept []metav1.ManagedFieldsEntry
		for _, entry := range o.GetManagedFields() {
			switch {
			case isOwn(entry, manager):
				// shared strings instead of one copy per object
				entry.Manager = manager
				entry.FieldsType = "FieldsV1"
			case !ownsAnyOf(entry, exact):
				continue
			}
			entry.Time = nil
			kept = append(kept, entry)
		}
		o.SetManagedFields(slices.Clip(kept))
		return x, nil
	}
}

// ownsAnyOf reports whether the manager of an entry owns a field below one of these top-level fields.
func ownsAnyOf(entry metav1.ManagedFieldsEntry, fields []string) bool {
	return entry.FieldsV1 != nil && slices.ContainsFunc(fields, func(name string) bool {
		return strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+name+`":`)
	})
}

// foreignKeys returns the entries of exclusive maps that other managers own and that are not intended, as paths of two
// names.
func (i *Intent) foreignKeys(live metav1.Object, manager string) []fieldPath {
	if len(i.exclusive) == 0 {
		return nil
	}
	var fields map[string]any
	var found []fieldPath
	for _, entry := range live.GetManagedFields() {
		if isOwn(entry, manager) || !ownsAnyOf(entry, i.exclusive) {
			continue
		}
		if fields == nil {
			fields = i.Fields()
		}
		theirs := FieldSet{raw: entry.FieldsV1.GetRawString()}
		for _, name := range i.exclusive {
			intended, _ := fields[name].(map[string]any)
			for _, key := range theirs.keysOf(name) {
				if _, ok := intended[key]; !ok {
					found = append(found, fieldPath{name, key})
				}
			}
		}
	}
	return found
}

// keysOf returns the owned keys of the map in a top-level field.
func (s FieldSet) keysOf(field string) []string {
	set, ok := s.set()
	if !ok {
		return nil
	}
	var keys []string
	set.WithPrefix(fieldpath.PathElement{FieldName: &field}).Members.Iterate(func(pe fieldpath.PathElement) {
		if pe.FieldName != nil {
			keys = append(keys, *pe.FieldName)
		}
	})
	return keys
}

// ownershipRecord returns the managedFields entries that [FieldManager.Converged] depends on.
func (i *Intent) ownershipRecord(live metav1.Object, manager string) string {
	own := OwnedFields(live, manager).raw
	if len(i.exclusive) == 0 {
		return own
	}
	all := []string{own}
	for _, entry := range live.GetManagedFields() {
		if !isOwn(entry, manager) && ownsAnyOf(entry, i.exclusive) {
			all = append(all, entry.FieldsV1.GetRawString())
		}
	}
	return strings.Join(all, "\n")
}

func isOwn(entry metav1.ManagedFieldsEntry, manager string) bool {
	return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply &&
		entry.Subresource == "" && entry.FieldsV1 != nil
}

func (s FieldSet) hasField(p fieldPath) bool {
	set, ok := s.set()
	if !ok {
		return false
	}
	path := p.path()
	for i, pe := range path {
		if i == len(path)-1 {
			return set.Members.Has(pe) || hasChild(set, pe)
		}
		set = set.WithPrefix(pe)
	}
	return false
}

func (s FieldSet) set() (*fieldpath.Set, bool) {
	if s.raw == "" {
		return nil, false
	}
	set := &fieldpath.Set{}
	if err := set.FromJSON(strings.NewReader(s.raw)); err != nil {
		return nil, false
	}
	return set, true
}

// elementOf returns the path element of a list item in the server's record, among the elements that may accepts.
func elementOf(
	item any, index int, set *fieldpath.Set, may func(fieldpath.PathElement) bool,
) (found fieldpath.PathElement, ok bool) {
	keep := func(pe fieldpath.PathElement) {
		if !ok && matchesItem(pe, item, index) && may(pe) {
			found, ok = pe, true
		}
	}
	set.Children.Iterate(keep)
	set.Members.Iterate(keep)
	return found, ok
}

func matchesItem(pe fieldpath.PathElement, item any, index int) bool {
	switch {
	case pe.Key != nil:
		fields, ok := item.(map[string]any)
		if !ok {
			return false
		}
		for _, k := range *pe.Key {
			// A key field that the intent leaves to the server's default, such as a port's protocol, matches any value.
			if x, set := fields[k.Name]; set && !value.Equals(value.NewValueInterface(x), k.Value) {
				return false
			}
		}
		return true
	case pe.Value != nil:
		return value.Equals(value.NewValueInterface(item), *pe.Value)
	case pe.Index != nil:
		return *pe.Index == index
	default:
		return false
	}
}

// hasKeys reports whether an item has all fields of its key in the server's record.
func hasKeys(item any, pe fieldpath.PathElement) bool {
	if pe.Key == nil {
		return true
	}
	fields, _ := item.(map[string]any)
	return !slices.ContainsFunc(*pe.Key, func(k value.Field) bool { return fields[k.Name] == nil })
}

func hasChild(set *fieldpath.Set, pe fieldpath.PathElement) bool {
	_, ok := set.Children.Get(pe)
	return ok
}

// ConflictingManagers returns the names of the other managers that own a field of the intent that the manager does not own
// any more. The object must have all its managedFields.
func (i *Intent) ConflictingManagers(live metav1.Object, manager string) []string {
	ours, ok := OwnedFields(live, manager).set()
	if !ok {
		ours = &fieldpath.Set{}
	}
	var names []string
	fields := i.Fields()
	for _, entry := range live.GetManagedFields() {
		if entry.FieldsV1 == nil || isOwn(entry, manager) {
			continue
		}
		theirs, ok := FieldSet{raw: entry.FieldsV1.GetRawString()}.set()
		if ok && ownsLeaf(fields, ours, theirs) && !slices.Contains(names, entry.Manager) {
			names = append(names, entry.Manager)
		}
	}
	slices.Sort(names)
	return names
}

// ownsLeaf reports whether theirs contains a leaf of the value that ours does not.
func ownsLeaf(v any, ours, theirs *fieldpath.Set) bool {
	visit := func(pe fieldpath.PathElement, x any) bool {
		below, ok := theirs.Children.Get(pe)
		if !ok || below.Empty() {
			return theirs.Members.Has(pe) && !ours.Members.Has(pe)
		}
		return ownsLeaf(x, ours.WithPrefix(pe), below)
	}
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if visit(fieldpath.PathElement{FieldName: &name}, x) {
				return true
			}
		}
	case []any:
		for index, item := range v {
			if pe, ok := elementOf(item, index, theirs, func(fieldpath.PathElement) bool { return true }); ok && visit(pe, item) {
				return true
			}
		}
	}
	return false
}

// String returns the server's record, in the format of metadata.managedFields.
func (s FieldSet) String() string { return s.raw }
