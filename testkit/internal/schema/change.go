package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Change makes one object out of another by giving one path another value. It must not be changed.
type Change struct {
	// Path is where the two objects differ, and nowhere else.
	Path Path
	// From and To are the values at Path, or Absent.
	From, To any
	// Place is where the property is that the change is about. It is below Path if the property's parents have to
	// appear with it, and above if only a part of its value differs.
	Place Path
	// Property is the property at Place as the schema calls it, for example spec.ports[*].port; see Schema.Properties.
	// Changes found by Diff have none.
	Property string
	// Kind is what happens to the property, for example "zero", "push" or "unset". It tells the changes of one place
	// apart.
	Kind string
	// ID tells the change from all others of the same object, and is the same on every machine, for example
	// "spec.replicas/zero".
	ID string
	// Semantic says that the value was chosen for the property's meaning and not for its type alone.
	Semantic bool
}

// Apply returns a changed copy of obj. It is false, and the copy unchanged, if obj has no place for the change.
func (c Change) Apply(obj *unstructured.Unstructured) (*unstructured.Unstructured, bool) {
	content, ok := c.Path.Set(obj.Object, c.To)
	root, isMap := content.(map[string]any)
	if !ok || !isMap {
		return obj.DeepCopy(), false
	}
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(root)}, true
}

// String reads like "spec.replicas: 3 -> 0", or "spec.template.paused: unset -> true (with spec.template)".
func (c Change) String() string {
	if len(c.Place) <= len(c.Path) || c.From != Absent {
		return fmt.Sprintf("%s: %s -> %s", c.Path, describe(c.From), describe(c.To))
	}
	return fmt.Sprintf("%s: unset -> %s (with %s)", c.Place, describe(c.Place[len(c.Path):].Get(c.To)), c.Path)
}

// longestValue is how much of a value a description shows.
const longestValue = 72

func describe(value any) string {
	if value == Absent {
		return "unset"
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%v", value)
	}
	if len(data) <= longestValue {
		return string(data)
	}
	end := longestValue
	for !utf8.RuneStart(data[end]) {
		end--
	}
	of := strconv.Itoa(len(data)) + " bytes of JSON"
	if s, ok := value.(string); ok {
		of = strconv.Itoa(utf8.RuneCountInString(s)) + " characters"
	}
	return fmt.Sprintf("%s... (%s)", data[:end], of)
}
