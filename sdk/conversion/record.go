package conversion

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Annotation has what the version of an object cannot express, in JSON: for each other version, the paths of its fields with
// their values. It is written by conversions only.
const Annotation = "homeostat.dev/conversion"

// maxAnnotations is the limit of the API server for the total size of all annotations.
const maxAnnotations = 256 << 10

// record has what an object of one version has, and a conversion of its counterpart would not reproduce. The keys are
// paths in the form of a JSON pointer, with the keys of an item in place of its index.
type record map[string]entry

type entry struct {
	// Value is the value, or nothing if the version does not have the field.
	Value json.RawMessage `json:"value,omitempty"`
	// Shown is the digest of what the conversion of the counterpart has at the path, or "" if it has no value there.
	Shown string `json:"shown,omitempty"`
	// New is the number of objects around the value that may be missing when it is restored.
	New int `json:"new,omitempty"`
}

// Kept returns the paths of the fields that the annotation keeps, by the name of their version. A list item has its keys for
// a name. It returns nil for an object without the annotation, or with one that cannot be read.
func Kept(annotations map[string]string) map[string][]string {
	records, _ := decodeRecords(annotations[Annotation])
	var kept map[string][]string
	for version, r := range records {
		if kept == nil {
			kept = map[string][]string{}
		}
		for pointer := range r {
			kept[version] = append(kept[version], strings.Join(split(pointer), "."))
		}
		slices.Sort(kept[version])
	}
	return kept
}

// decodeRecords ignores what it cannot read: any client that may write the object may write the annotation.
func decodeRecords(text string) (map[string]record, error) {
	records := map[string]record{}
	if text == "" {
		return records, nil
	}
	if err := json.Unmarshal([]byte(text), &records); err != nil {
		return map[string]record{}, err
	}
	for _, r := range records {
		maps.DeleteFunc(r, func(pointer string, e entry) bool {
			p := split(pointer)
			var v any
			return len(p) == 0 || p[0] == "metadata" || p[0] == "apiVersion" || p[0] == "kind" || e.New < 0 || e.New >= len(p) ||
				len(e.Value) > 0 && utiljson.Unmarshal(e.Value, &v) != nil
		})
	}
	return records, nil
}

func (c *conversion) annotations() (map[string]any, error) {
	metadata, ok := c.object["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("metadata is missing")
	}
	switch a := metadata["annotations"].(type) {
	case nil:
		return nil, nil //nolint:nilnil // an object may have no annotations
	case map[string]any:
		return a, nil
	default:
		return nil, errors.New("metadata.annotations is no map")
	}
}

// readRecords moves the records from the annotation to the conversion.
func (c *conversion) readRecords() error {
	annotations, err := c.annotations()
	if err != nil {
		return err
	}
	text, _ := annotations[Annotation].(string)
	c.records, _ = decodeRecords(text)
	return nil
}

// writeRecords sets or removes the annotation.
func (c *conversion) writeRecords() error {
	annotations, err := c.annotations()
	if err != nil {
		return err
	}
	maps.DeleteFunc(c.records, func(_ string, r record) bool { return len(r) == 0 })
	metadata, _ := c.object["metadata"].(map[string]any)
	if len(c.records) == 0 {
		if _, ok := annotations[Annotation]; ok {
			if delete(annotations, Annotation); len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
		return nil
	}
	text, err := json.Marshal(c.records)
	if err != nil {
		return fmt.Errorf("encoding annotation %s: %w", Annotation, err)
	}
	size := len(Annotation) + len(text)
	for key, v := range annotations {
		if value, ok := v.(string); ok && key != Annotation {
			size += len(key) + len(value)
		}
	}
	if size > maxAnnotations {
		return fmt.Errorf("what this version cannot express of %v needs annotations of %d bytes, and the limit of the API server "+
			"is %d", slices.Sorted(maps.Keys(c.records)), size, maxAnnotations)
	}
	if annotations == nil {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	annotations[Annotation] = string(text)
	return nil
}

// digest identifies a value.
func digest(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "invalid"
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// fresh returns the entries whose shown values are those in the object.
func (r record) fresh(object map[string]any, keys listKeys) record {
	result := record{}
	f := newFinder(object, keys)
	for pointer, e := range r {
		p := split(pointer)
		parent, ok := f.find(p[:len(p)-1-e.New], false)
		if !ok {
			continue
		}
		if _, isMap := parent.(map[string]any); !isMap {
			continue
		}
		shown := ""
		if v, ok := f.find(p, false); ok {
			shown = digest(v)
		}
		if shown == e.Shown {
			result[pointer] = e
		}
	}
	return result
}

// apply returns a copy of the object with the values of the record.
func (r record) apply(object map[string]any, keys listKeys) map[string]any {
	result := make(map[string]any, len(object))
	for key, v := range object {
		if result[key] = v; key != "metadata" {
			result[key] = runtime.DeepCopyJSONValue(v)
		}
	}
	f := newFinder(result, keys)
	for _, pointer := range slices.Sorted(maps.Keys(r)) {
		p := split(pointer)
		parent, _ := f.find(p[:len(p)-1], true)
		m, ok := parent.(map[string]any)
		if !ok {
			continue
		}
		if len(r[pointer].Value) == 0 {
			delete(m, p[len(p)-1])
			continue
		}
		var v any
		if err := utiljson.Unmarshal(r[pointer].Value, &v); err == nil {
			m[p[len(p)-1]] = v
		}
	}
	return result
}

// finder finds values in one object, whose lists must not change.
type finder struct {
	object map[string]any
	keys   listKeys
	lists  map[string]map[string]int // the indexes of items by their names, by the path of the list
}

func newFinder(object map[string]any, keys listKeys) *finder {
	return &finder{object: object, keys: keys, lists: map[string]map[string]int{}}
}

// find returns the value at a path. With create, it makes the missing objects.
func (f *finder) find(p path, create bool) (any, bool) {
	var v any = f.object
	var at path
	for i, name := range p {
		switch c := v.(type) {
		case map[string]any:
			child, ok := c[name]
			if !ok {
				if !create {
					return nil, false
				}
				child = map[string]any{}
				c[name] = child
			}
			v = child
			at = append(at, name)
		case []any:
			index, ok := f.names(c, p[:i], at)[name]
			if !ok {
				return nil, false
			}
			v = c[index]
			at = append(at, items)
		default:
			return nil, false
		}
	}
	return v, true
}

// names returns the indexes of the items of a list.
func (f *finder) names(list []any, p, pattern path) map[string]int {
	key := pointer(p)
	if f.lists[key] == nil {
		names := make(map[string]int, len(list))
		if keys := f.keys.of(pattern); keys != nil {
			for i, item := range list {
				names[itemName(item, keys)] = i
			}
		}
		delete(names, "")
		f.lists[key] = names
	}
	return f.lists[key]
}

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// pointer returns a path as a JSON pointer.
func pointer(p path) string {
	var b strings.Builder
	for _, name := range p {
		b.WriteByte('/')
		b.WriteString(escaper.Replace(name))
	}
	return b.String()
}

func split(pointer string) path {
	rest, ok := strings.CutPrefix(pointer, "/")
	if !ok {
		return nil
	}
	p := path(strings.Split(rest, "/"))
	for i, name := range p {
		p[i] = unescaper.Replace(name)
	}
	return p
}
