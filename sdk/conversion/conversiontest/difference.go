package conversiontest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// difference describes the first difference between two objects, or returns "".
func difference(want, got map[string]any) string { return firstDifference(want, got, "") }

func firstDifference(want, got any, path string) string {
	w, ok1 := want.(map[string]any)
	g, ok2 := got.(map[string]any)
	if !ok1 || !ok2 {
		if reflect.DeepEqual(want, got) {
			return ""
		}
		a, _ := json.Marshal(want) //nolint:errchkjson // it came from JSON
		b, _ := json.Marshal(got)  //nolint:errchkjson // it came from JSON
		return fmt.Sprintf("%s was %s and is %s", strings.TrimPrefix(path, "."), a, b)
	}
	for _, name := range sortedKeys(w) {
		if _, ok := g[name]; !ok {
			return strings.TrimPrefix(path+"."+name, ".") + " is gone"
		}
		if d := firstDifference(w[name], g[name], path+"."+name); d != "" {
			return d
		}
	}
	for _, name := range sortedKeys(g) {
		if _, ok := w[name]; !ok {
			return strings.TrimPrefix(path+"."+name, ".") + " is new"
		}
	}
	return ""
}
