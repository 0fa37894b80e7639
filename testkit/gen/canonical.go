package gen

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
	"github.com/homeostat-dev/homeostat/testkit/internal/state"
)

// numbered is the end of a canonical name of an object whose name the server has made up.
var numbered = regexp.MustCompile(`~\d+`)

// renumber makes the numbers of objects with generated names depend on what they are, and not on how many there were
// before: the only shard that is left is the first one, whichever it was.
func renumber(s state.State) state.State {
	out := state.State{}
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
		slices.SortFunc(members, func(a, b any) int { return strings.Compare(text(a), text(b)) })
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

// text is the same for equal values.
func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// render prints a manifest as a person would write it.
func render(m *unstructured.Unstructured) string {
	data, err := schema.Render(m)
	if err != nil {
		return "# " + err.Error() + "\n"
	}
	return string(data)
}
