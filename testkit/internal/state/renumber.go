package state

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// numbered is the end of a canonical name of an object whose name the server has made up.
var numbered = regexp.MustCompile(`~\d+`)

// Renumber makes the numbers of objects with generated names depend on what they are, and not on how many there were
// before: the only shard that is left is the first one, whichever it was.
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

// unnumbered leaves out the numbers where other objects name them.
func unnumbered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[numbered.ReplaceAllString(k, "~")] = unnumbered(x)
		}
		return out
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

// Text is the same for equal values.
func Text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
