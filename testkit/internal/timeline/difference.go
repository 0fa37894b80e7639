package timeline

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// differences appends the changed fields, as "spec.replicas: 1 -> 3". List items with names are compared by name, and a
// condition is one value.
func differences(path string, a, b any, found []string) []string {
	if path == "status.conditions" {
		a, b = conditions(a), conditions(b)
	}
	x, y := named(a), named(b)
	if x == nil && y == nil || x == nil && a != nil || y == nil && b != nil {
		if !reflect.DeepEqual(a, b) {
			found = append(found, fmt.Sprintf("%s: %s -> %s", path, short(a), short(b)))
		}
		return found
	}
	all := maps.Clone(y)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, x)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		at := strings.TrimPrefix(path+"."+k, ".")
		if !ignoredFields[at] {
			found = differences(at, x[k], y[k], found)
		}
	}
	return found
}

// ignoredFields change with every write.
var ignoredFields = map[string]bool{
	"metadata.managedFields": true, "metadata.resourceVersion": true, "metadata.generation": true,
}

// named returns the fields of an object, or the items of a list by name. It returns nil for other values.
func named(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return v
	case []any:
		items := map[string]any{}
		for _, item := range v {
			fields, ok := item.(map[string]any)
			if !ok {
				return nil
			}
			name, ok := fields["name"].(string)
			if !ok || items[name] != nil {
				return nil
			}
			items[name] = fields
		}
		if len(items) > 0 {
			return items
		}
	}
	return nil
}

// conditionText is the text of a condition.
type conditionText string

// conditions returns the text of each condition by type: "False (Progressing: no pod yet)".
func conditions(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	all := map[string]any{}
	for _, item := range list {
		c, ok := item.(map[string]any)
		if !ok {
			return v
		}
		text := func(name string) string { s, _ := c[name].(string); return s }
		why := strings.TrimSuffix(strings.TrimSpace(text("reason")+": "+text("message")), ":")
		if kind := text("type"); all[kind] == nil {
			all[kind] = conditionText(fmt.Sprintf("%s (%s)", text("status"), why))
		} else {
			return v
		}
	}
	return all
}

// redactSecret returns a Secret with hashes in place of its values.
func redactSecret(u *unstructured.Unstructured) *unstructured.Unstructured {
	if u.GetKind() != "Secret" || u.GetAPIVersion() != "v1" {
		return u
	}
	u = u.DeepCopy()
	annotations := u.GetAnnotations()
	if _, ok := annotations[corev1.LastAppliedConfigAnnotation]; ok { // kubectl repeats the values there
		annotations[corev1.LastAppliedConfigAnnotation] = "hidden"
		u.SetAnnotations(annotations)
	}
	data, _, _ := unstructured.NestedMap(u.Object, "data")
	for key, v := range data {
		sum := sha256.Sum256(fmt.Append(nil, v))
		data[key] = fmt.Sprintf("hidden, %x", sum[:2])
	}
	if data != nil {
		u.Object["data"] = data
	}
	return u
}

// contents lists the fields of a new object that the server did not add.
func contents(u *unstructured.Unstructured) []string {
	fields := map[string]any{}
	for name, v := range u.Object {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			fields[name] = v
		}
	}
	all := differences("", map[string]any{}, fields, nil)
	for i, d := range all {
		all[i] = strings.Replace(d, ": none -> ", ": ", 1)
	}
	return all
}

// short formats a value in one line.
func short(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case conditionText:
		return clip(string(v), maxTextBytes)
	}
	data, err := json.Marshal(v)
	text := string(data)
	if err != nil {
		text = fmt.Sprint(v)
	}
	return clip(text, maxValueBytes)
}

// Limits for a value and for the text of a condition, in bytes.
const maxValueBytes, maxTextBytes = 60, 160

func clip(text string, limit int) string {
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}
