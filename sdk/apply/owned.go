package apply

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// FieldSet is the set of fields that one manager owns of one object, as the API server recorded it.
type FieldSet struct {
	raw string // FieldsV1, "" if the manager owns nothing
}

// OwnedFields returns what the manager owns of the object through server-side apply.
func OwnedFields(o metav1.Object, manager string) FieldSet {
	for _, entry := range o.GetManagedFields() {
		if isOwn(entry, manager) {
			return FieldSet{raw: entry.FieldsV1.GetRawString()}
		}
	}
	return FieldSet{}
}

// TrimManagedFields returns a transform for an informer that drops metadata.managedFields except for the manager's own entry,
// which is what [Manager.Converged] needs. The rest is most of the size of a small object. Of other managers' entries those
// stay that have one of the exact fields (see [ExclusiveMaps]).
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
				entry.Manager, entry.FieldsType = manager, "FieldsV1" // shared strings instead of one copy an object
			case !touches(entry, exact):
				continue
			}
			entry.Time = nil
			kept = append(kept, entry)
		}
		o.SetManagedFields(slices.Clip(kept))
		return x, nil
	}
}

// touches reports whether an entry says that its manager owns something in one of the fields at the top of the object.
func touches(entry metav1.ManagedFieldsEntry, fields []string) bool {
	return entry.FieldsV1 != nil && slices.ContainsFunc(fields, func(name string) bool {
		return strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+name+`":`)
	})
}

// strays returns what others own in the exact fields and is not intended, as paths of two names.
func (i *Intent) strays(live metav1.Object, manager string) []fieldPath {
	if len(i.exact) == 0 {
		return nil
	}
	var fields map[string]any
	var found []fieldPath
	for _, entry := range live.GetManagedFields() {
		if isOwn(entry, manager) || !touches(entry, i.exact) {
			continue
		}
		if fields == nil {
			fields = i.Fields()
		}
		theirs := FieldSet{raw: entry.FieldsV1.GetRawString()}
		for _, name := range i.exact {
			intended, _ := fields[name].(map[string]any)
			for _, key := range theirs.entries(name) {
				if _, ok := intended[key]; !ok {
					found = append(found, fieldPath{name, key})
				}
			}
		}
	}
	return found
}

// entries returns the keys that are owned of the map in a field at the top.
func (w FieldSet) entries(field string) []string {
	set, ok := w.set()
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

// evidence is what the server recorded that [Manager.Converged] judges an object by.
func (i *Intent) evidence(live metav1.Object, manager string) string {
	own := OwnedFields(live, manager).raw
	if len(i.exact) == 0 {
		return own
	}
	all := []string{own}
	for _, entry := range live.GetManagedFields() {
		if !isOwn(entry, manager) && touches(entry, i.exact) {
			all = append(all, entry.FieldsV1.GetRawString())
		}
	}
	return strings.Join(all, "\n")
}

func isOwn(entry metav1.ManagedFieldsEntry, manager string) bool {
	return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply &&
		entry.Subresource == "" && entry.FieldsV1 != nil
}

func (w FieldSet) has(p fieldPath) bool {
	set, ok := w.set()
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

func (w FieldSet) set() (*fieldpath.Set, bool) {
	if w.raw == "" {
		return nil, false
	}
	set := &fieldpath.Set{}
	if err := set.FromJSON(strings.NewReader(w.raw)); err != nil {
		return nil, false
	}
	return set, true
}

// elementOf finds the path element by which the server knows a list item, among those that may be it.
func elementOf(
	item any, index int, set *fieldpath.Set, may func(fieldpath.PathElement) bool,
) (found fieldpath.PathElement, ok bool) {
	keep := func(pe fieldpath.PathElement) {
		if !ok && identifies(pe, item, index) && may(pe) {
			found, ok = pe, true
		}
	}
	set.Children.Iterate(keep)
	set.Members.Iterate(keep)
	return found, ok
}

func identifies(pe fieldpath.PathElement, item any, index int) bool {
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

// hasKeys reports whether an item has all fields of the key by which the server knows it.
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

// ConflictingManagers names the other managers that own a field of the intent which the manager itself does not own any more. The
// object must carry all its managedFields.
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
		if ok && takes(fields, ours, theirs) && !slices.Contains(names, entry.Manager) {
			names = append(names, entry.Manager)
		}
	}
	slices.Sort(names)
	return names
}

// takes reports whether theirs contains a leaf of the value that ours does not.
func takes(v any, ours, theirs *fieldpath.Set) bool {
	visit := func(pe fieldpath.PathElement, x any) bool {
		below, ok := theirs.Children.Get(pe)
		if !ok || below.Empty() {
			return theirs.Members.Has(pe) && !ours.Members.Has(pe)
		}
		return takes(x, ours.WithPrefix(pe), below)
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
func (w FieldSet) String() string { return w.raw }
