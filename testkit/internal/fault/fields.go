package fault

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat-dev/homeostat/testkit/internal/history"
	"github.com/homeostat-dev/homeostat/testkit/internal/intercept"
)

// Field is a field of an object and another value for it.
type Field struct {
	path  []string
	other string // JSON
}

// String returns the path with dots.
func (f Field) String() string { return strings.Join(f.path, ".") }

// Part returns the start of the path: a field of the object, or one of its spec or data.
func (f Field) Part() string { return strings.Join(f.path[:min(len(f.path), 2)], ".") }

// Parts returns the parts that contain fields, in the order of the fields.
func Parts(fields []Field) []string {
	var all []string
	for _, f := range fields {
		if !slices.Contains(all, f.Part()) {
			all = append(all, f.Part())
		}
	}
	return all
}

func (f Field) pointer() string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, p := range f.path {
		b.WriteString("/" + escape.Replace(p))
	}
	return b.String()
}

// OwnedFields returns the fields outside of metadata that have the value that the operator sent.
func OwnedFields(live *unstructured.Unstructured, calls []intercept.Call, changes []history.Change) []Field {
	var fields []Field
	seen := map[string]bool{}
	for _, c := range calls {
		if types.UID(c.UID) != live.GetUID() || c.Subresource != "" || !c.IsWrite() || c.Code >= http.StatusMultipleChoices {
			continue
		}
		var sent map[string]any
		if json.Unmarshal(c.Sent, &sent) != nil {
			continue // the patch is no object
		}
		is := func([]string) bool { return false }
		if c.Verb == "update" {
			is = unchangedFields(sent, live, changes)
		}
		for name, v := range sent {
			switch name {
			case "apiVersion", "kind", "metadata", "status":
				continue
			}
			for _, f := range collectLeaves(nil, []string{name}, v, live.Object[name]) {
				if !seen[f.String()] && !is(f.path) {
					seen[f.String()] = true
					fields = append(fields, f)
				}
			}
		}
	}
	// Fields near the root come first. Deep ones may have several writers, such as those of a pod template.
	slices.SortFunc(fields, func(a, b Field) int {
		if c := cmp.Compare(len(a.path), len(b.path)); c != 0 {
			return c
		}
		return strings.Compare(a.String(), b.String())
	})
	return fields
}

// unchangedFields returns a predicate for fields that an update merely repeats: a client that reads, modifies and writes
// sends the fields of other managers back. These have the same value in the earlier version. If that version is unknown,
// all fields count as repeated.
func unchangedFields(
	sent map[string]any, live *unstructured.Unstructured, changes []history.Change,
) func(path []string) bool {
	version, _, _ := unstructured.NestedString(sent, "metadata", "resourceVersion")
	for _, c := range changes {
		if c.Object.GetUID() == live.GetUID() && c.Object.GetResourceVersion() == version {
			return func(path []string) bool { return reflect.DeepEqual(at(c.Object.Object, path), at(live.Object, path)) }
		}
	}
	return func([]string) bool { return true }
}

// at returns the value at a path, or nil.
func at(v any, path []string) any {
	for _, step := range path {
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

func collectLeaves(fields []Field, path []string, sent, live any) []Field { //nolint:cyclop // one case for each kind of value
	below := func(step string) []string { return append(slices.Clone(path), step) }
	switch v := sent.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			return fields
		}
		for k, x := range v {
			fields = collectLeaves(fields, below(k), x, l[k])
		}
	case []any:
		l, ok := live.([]any)
		if !ok || len(l) != len(v) {
			return fields
		}
		for i, x := range v {
			fields = collectLeaves(fields, below(strconv.Itoa(i)), x, l[i])
		}
	case string:
		if l, ok := live.(string); ok && l == v && v != "" {
			fields = append(fields, Field{path, strconv.Quote(otherText(v))})
		}
	case float64:
		if fmt.Sprint(v) == fmt.Sprint(live) {
			fields = append(fields, Field{path, fmt.Sprint(v + 1)})
		}
	case bool:
		if l, ok := live.(bool); ok && l == v {
			fields = append(fields, Field{path, strconv.FormatBool(!v)})
		}
	}
	return fields
}

// otherText returns a different text that is probably valid where v is. Base64 stays base64, as in a Secret, and a name
// stays a name.
func otherText(v string) string {
	if strings.HasSuffix(v, "=") || len(v)%4 == 0 && len(v) > 8 {
		return "dGVzdGtpdC1kcmlmdA=="
	}
	return v + "0"
}
