package versions

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	v2 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v2"
)

// The limits of the names in v1. Longer ones would need space in the annotation of the conversion.
const (
	maxNames = 64
	maxName  = 253
)

// joinNamespaces returns the list in v2 of the fields namespace and namespaces of v1, without duplicates.
func joinNamespaces(values []any) ([]any, error) {
	names, ok := namesOf(values[0])
	if !ok {
		raw, err := json.Marshal(values[0])
		if err != nil {
			return nil, fmt.Errorf("encoding the namespace: %w", err)
		}
		names = []any{v2.MalformedNamespace + string(raw)}
	}
	list, _ := values[1].([]any)
	unique := []any{}
	for _, name := range slices.Concat(names, list) {
		if !slices.Contains(unique, name) {
			unique = append(unique, name)
		}
	}
	return unique, nil
}

// namesOf returns the names in a field namespace of v1, and whether it is a name or a list of names.
func namesOf(v any) (names []any, ok bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case string:
		names = []any{v}
	case []any:
		names = v
	default:
		return nil, false
	}
	return names, len(names) <= maxNames && !slices.ContainsFunc(names, func(name any) bool {
		text, isText := name.(string)
		return !isText || len(text) > maxName
	})
}

// splitNamespaces returns the fields namespace and namespaces of v1. A name that the schema of namespaces does not permit is
// in the field namespace.
func splitNamespaces(list []any) ([]any, error) {
	if len(list) == 0 {
		return []any{nil, list}, nil
	}
	if value, ok := malformedNamespace(list[0]); ok && fits(list[1:]) {
		if len(list) == 1 {
			return []any{value, nil}, nil
		}
		return []any{value, list[1:]}, nil
	}
	switch at := min(len(list), maxNames); {
	case fits(list):
		return []any{nil, list}, nil
	case len(list) > maxNames && fits(list[at:]):
		return []any{list[:at], list[at:]}, nil
	default:
		return []any{list, nil}, nil
	}
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// fits reports whether the schema of the field namespaces of v1 permits the list.
func fits(list []any) bool {
	return len(list) <= maxNames && !slices.ContainsFunc(list, func(name any) bool {
		text, ok := name.(string)
		return !ok || len(text) > validation.DNS1123LabelMaxLength || !label.MatchString(text)
	})
}

// malformedNamespace returns the value of the field namespace of v1 that an item of the list in v2 stands for.
func malformedNamespace(item any) (value any, ok bool) {
	text, _ := item.(string)
	raw, found := strings.CutPrefix(text, v2.MalformedNamespace)
	if !found || utiljson.Unmarshal([]byte(raw), &value) != nil {
		return nil, false
	}
	_, isNames := namesOf(value)
	again, err := json.Marshal(value)
	return value, !isNames && err == nil && string(again) == raw
}

// ParseNamespaces returns an error for the author of the rule if a name is that of no namespace.
func ParseNamespaces(names []string) error {
	for _, name := range names {
		if value, ok := malformedNamespace(name); ok {
			raw := strings.TrimPrefix(name, v2.MalformedNamespace)
			if list, isList := value.([]any); isList && len(list) > maxNames {
				return fmt.Errorf("namespace has more than %d names: name fewer", maxNames)
			}
			return fmt.Errorf("namespace is %s: write the name of a namespace, or a list of names", shorten(raw))
		}
		if msgs := validation.IsDNS1123Label(name); len(msgs) > 0 {
			return fmt.Errorf("namespace %q cannot exist: correct its name", shorten(name))
		}
	}
	return nil
}
