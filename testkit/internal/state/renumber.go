package state

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// numbered matches the number in the canonical form of a generated name.
var numbered = regexp.MustCompile(`~\d+`)

// Renumber numbers objects with generated names by their content instead of their age: the only remaining shard is always
// number 1.
func Renumber(s State) State {
	out := State{}
	groups := map[string][]any{}
	for key, v := range s {
		if at := numbered.FindStringIndex(key); at != nil {
			group := key[:at[0]+1]
			groups[group] = append(groups[group], unnumbered(v))
			continue
		}
		out[key] = unnumbered(v)
	}
	for group, members := range groups {
		slices.SortFunc(members, func(a, b any) int { return strings.Compare(Text(a), Text(b)) })
		for i, v := range members {
			out[fmt.Sprintf("%s%d", group, i+1)] = v
		}
	}
	return out
}

// unnumbered removes the numbers from references to other objects, also in keys.
func unnumbered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string][]any, len(v))
		for k, x := range v {
			name := numbered.ReplaceAllString(k, "~")
			out[name] = append(out[name], unnumbered(x))
		}
		return numberEqual(out)
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = unnumbered(x)
		}
		return out
	case string:
		return numbered.ReplaceAllString(v, "~")
	default:
		return v
	}
}

// numberEqual returns a map from one that has the values of all keys with the same canonical form. If there are several,
// they are numbered by their content.
func numberEqual(all map[string][]any) map[string]any {
	out := make(map[string]any, len(all))
	for key, values := range all {
		if len(values) == 1 {
			out[key] = values[0]
			continue
		}
		slices.SortFunc(values, func(a, b any) int { return strings.Compare(Text(a), Text(b)) })
		for i, v := range values {
			out[fmt.Sprintf("%s(%d)", key, i+1)] = v
		}
	}
	return out
}

// Text returns equal texts for equal values.
func Text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
