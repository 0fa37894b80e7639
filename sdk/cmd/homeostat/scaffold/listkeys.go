package scaffold

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// listKeys returns the keys of all lists of type map in a version of a CustomResourceDefinition, as a Go expression for the
// field ListKeys of conversion.Version. Several lists have one line each.
func listKeys(crd []byte, version string) (string, error) {
	var definition struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema any }
			}
		}
	}
	if err := yaml.Unmarshal(crd, &definition); err != nil {
		return "", err
	}
	found := map[string]string{}
	for _, v := range definition.Spec.Versions {
		if v.Name == version {
			findListKeys(v.Schema.OpenAPIV3Schema, "", found)
		}
	}
	lines := slices.Sorted(maps.Values(found))
	if len(lines) < 2 {
		return "map[string][]string{" + strings.Join(lines, "") + "}", nil
	}
	return "map[string][]string{\n" + strings.Join(lines, ",\n") + ",\n}", nil
}

// findListKeys adds the entries of a schema, by the paths of the lists.
func findListKeys(schema any, path string, found map[string]string) {
	s, _ := schema.(map[string]any)
	if s["x-kubernetes-list-type"] == "map" {
		var keys []string
		list, _ := s["x-kubernetes-list-map-keys"].([]any)
		for _, key := range list {
			keys = append(keys, fmt.Sprintf("%q", key))
		}
		found[path] = fmt.Sprintf("%q: {%s}", path, strings.Join(keys, ", "))
	}
	properties, _ := s["properties"].(map[string]any)
	for name, property := range properties {
		findListKeys(property, strings.TrimPrefix(path+"."+name, "."), found)
	}
	if items, isList := s["items"]; isList {
		findListKeys(items, path+"[]", found)
	}
	if values, isMap := s["additionalProperties"]; isMap {
		findListKeys(values, path+".*", found)
	}
}
