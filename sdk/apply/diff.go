package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Diff says what an apply by the manager would change of the live object, one line a field: "path: new" for one that is
// set anew, "path: old -> new", and "path: old -> nothing" for one that the manager applied before and the intent no longer
// has. Live is nil if the object does not exist. The data of Secrets is not shown; that of what is [ContentFrom] is called a
// digest. What the API server would add or refuse is not known here; of an object of which only metadata is given, metadata
// alone is compared.
func (i *Intent) Diff(live client.Object, manager string) ([]string, error) {
	d := differ{secret: i.GVK.Group == "" && i.GVK.Kind == "Secret", stands: i.fill != nil}
	var now map[string]any
	all := i.fields(i.guarded(), nil)
	intended := all
	if live != nil {
		var err error
		if now, err = present(live); err != nil {
			return nil, fmt.Errorf("reading %s: %w", i, err)
		}
	}
	if _, partial := live.(*metav1.PartialObjectMetadata); partial {
		intended = map[string]any{"metadata": intended["metadata"]}
	}
	d.fields(nil, intended, now)
	if live != nil {
		d.removed(OwnedFields(live, manager), i.disowned, all, now)
	}
	return d.lines, nil
}

// differ collects the lines of a difference.
type differ struct {
	secret bool
	stands bool // of a stand-in, which has digests
	lines  []string
}

func (d *differ) fields(at fieldpath.Path, intended, present map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(intended)) {
		d.value(append(slices.Clip(at), fieldpath.PathElement{FieldName: &name}), intended[name], present[name])
	}
}

func (d *differ) value(at fieldpath.Path, intended, present any) {
	if d.skips(at) {
		return
	}
	switch v := intended.(type) {
	case map[string]any:
		if fields, _ := present.(map[string]any); len(v) > 0 {
			d.fields(at, v, fields)
			return
		}
	case []any:
		if items, _ := present.([]any); named(v) && (len(items) == 0 || named(items)) {
			for _, item := range v {
				pe := byName(item)
				fields, _ := item.(map[string]any)
				other, _ := child(present, pe).(map[string]any)
				d.fields(append(slices.Clip(at), pe), fields, other)
			}
			return
		}
	}
	switch {
	case present == nil:
		d.say(at, "%s", d.show(at, intended))
	case !includes(present, intended, false):
		d.say(at, "%s -> %s", d.show(at, present), d.show(at, intended))
	}
}

// removed adds what the manager owns and does not intend.
func (d *differ) removed(owned FieldSet, disowned []fieldPath, intended, present map[string]any) {
	set, ok := owned.set()
	if !ok {
		return
	}
	find := func(v any, path fieldpath.Path) any {
		for _, pe := range path {
			v = child(v, pe)
		}
		return v
	}
	set.Leaves().Iterate(func(path fieldpath.Path) {
		path = path.Copy()
		left := slices.ContainsFunc(disowned, func(p fieldPath) bool { return p.path().Equals(path) })
		if was := find(present, path); !left && was != nil && find(intended, path) == nil {
			d.say(path, "%s -> nothing", d.show(path, was))
		}
	})
}

// skips reports whether a field is of no interest to a reader: what names the object, and our own bookkeeping.
func (d *differ) skips(at fieldpath.Path) bool {
	switch name(at) {
	case "apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.ownerReferences",
		"metadata.annotations." + DigestAnnotation:
		return true
	default:
		return false
	}
}

func (d *differ) say(at fieldpath.Path, format string, args ...any) {
	d.lines = append(d.lines, name(at)+": "+fmt.Sprintf(format, args...))
}

func (d *differ) show(at fieldpath.Path, v any) string {
	first := *at[0].FieldName
	if d.secret && (first == "data" || first == "stringData") {
		return "(not shown)"
	}
	text := fmt.Sprint(v)
	if raw, err := json.Marshal(v); err == nil {
		text = string(raw)
	}
	if d.stands && (first == "data" || first == "binaryData") {
		return "digest " + text
	}
	return text
}

func name(at fieldpath.Path) string { return strings.TrimPrefix(at.String(), ".") }

// named reports whether each item of a list has a name of its own, as containers, ports and variables do.
func named(items []any) bool {
	seen := map[any]bool{}
	for _, item := range items {
		fields, ok := item.(map[string]any)
		if text, isText := fields["name"].(string); !ok || !isText || seen[text] {
			return false
		}
		seen[fields["name"]] = true
	}
	return len(items) > 0
}

func byName(item any) fieldpath.PathElement {
	fields, _ := item.(map[string]any)
	return fieldpath.PathElement{Key: &value.FieldList{{Name: "name", Value: value.NewValueInterface(fields["name"])}}}
}
