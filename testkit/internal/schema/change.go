package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// A Change gives the value at one path of an object another value. It must not be modified.
type Change struct {
	// Path is the only place where the two objects differ.
	Path Path
	// From and To are the values at Path, or Absent.
	From, To any
	// PropertyPath is the path of the property that the change is about. It is below Path if the property's parents have to be
	// created with it, and above Path if only a part of the property's value differs.
	PropertyPath Path
	// Property is the schema's name of the property at PropertyPath, for example spec.ports[*].port; see Schema.Properties.
	// Changes returned by Diff have none.
	Property string
	// Kind names what happens to the property, for example "zero", "push" or "unset". It is unique among the changes of one
	// place.
	Kind string
	// ID identifies the change among all changes of the same object. It is the same on every machine, for example
	// "spec.replicas/zero".
	ID string
	// Semantic reports that the value was chosen for the property's meaning, not only for its type.
	Semantic bool
}

// Apply returns a changed copy of obj. It returns false and an unchanged copy if obj has no place for the change.
func (c Change) Apply(obj *unstructured.Unstructured) (*unstructured.Unstructured, bool) {
	content, ok := c.Path.Set(obj.Object, c.To)
	root, isMap := content.(map[string]any)
	if !ok || !isMap {
		return obj.DeepCopy(), false
	}
	return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(root)}, true
}

// String formats the change, for example "spec.replicas: 3 -> 0" or "spec.template.paused: unset -> true (with
// spec.template)".
func (c Change) String() string {
	if len(c.PropertyPath) <= len(c.Path) || c.From != Absent {
		return fmt.Sprintf("%s: %s -> %s", c.Path, describe(c.From), describe(c.To))
	}
	return fmt.Sprintf("%s: unset -> %s (with %s)", c.PropertyPath, describe(c.PropertyPath[len(c.Path):].Get(c.To)), c.Path)
}

// longestValue is the number of bytes of a value that a description shows.
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
