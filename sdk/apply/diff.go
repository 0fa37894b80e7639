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

// Diff returns the changes that an apply by the manager would make to the live object, one line a field: "path: new" for a
// new field, "path: old -> new", and "path: old -> nothing" for an applied field that the intent no longer has. live is nil
// if the object does not exist. The data of Secrets is hidden; the data of a [ContentFrom] object is shown as a digest.
// Changes by the API server, such as defaults and rejections, are unknown. If live has metadata alone, only metadata is
// compared.
func (i *Intent) Diff(live client.Object, manager string) ([]string, error) {
	d := differ{secret: i.GVK.Group == "" && i.GVK.Kind == "Secret", digests: i.content != nil}
	var now map[string]any
	all := i.fields(i.withFinalizers(), nil)
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
		d.removed(OwnedFields(live, manager), i.unmanaged, all, now)
	}
	return d.lines, nil
}

// differ collects the lines of a difference.
type differ struct {
	secret  bool
	digests bool // the data of the object has digests, see ContentFrom
	lines   []string
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
		d.addLine(at, "%s", d.format(at, intended))
	case !includes(present, intended, false):
		d.addLine(at, "%s -> %s", d.format(at, present), d.format(at, intended))
	}
}

// removed adds lines for the fields that the manager owns and does not intend.
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
			d.addLine(path, "%s -> nothing", d.format(path, was))
		}
	})
}

// skips reports whether a field is irrelevant for the reader: identifying fields and our own metadata.
func (d *differ) skips(at fieldpath.Path) bool {
	switch name(at) {
	case "apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.ownerReferences",
		"metadata.annotations." + DigestAnnotation:
		return true
	default:
		return false
	}
}

func (d *differ) addLine(at fieldpath.Path, format string, args ...any) {
	d.lines = append(d.lines, name(at)+": "+fmt.Sprintf(format, args...))
}

func (d *differ) format(at fieldpath.Path, v any) string {
	first := *at[0].FieldName
	if d.secret && (first == "data" || first == "stringData") {
		return "(not shown)"
	}
	text := fmt.Sprint(v)
	if raw, err := json.Marshal(v); err == nil {
		text = string(raw)
	}
	if d.digests && (first == "data" || first == "binaryData") {
		return "digest " + text
	}
	return text
}

func name(at fieldpath.Path) string { return strings.TrimPrefix(at.String(), ".") }

// named reports whether each item of a list has a unique name, such as containers, ports and environment variables.
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
