package schema

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Of the metadata a person writes these, in this order.
var written = []string{"name", "generateName", "namespace", "labels", "annotations"}

// What kubectl adds to the annotations of an object that it applies.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Manifest returns a copy of obj without what a person does not write: the status, and of the metadata all but the
// name, the namespace, labels and annotations.
func Manifest(obj *unstructured.Unstructured) *unstructured.Unstructured {
	content := maps.Clone(obj.Object)
	delete(content, "status")
	if all, ok := content["metadata"].(map[string]any); ok {
		metadata := map[string]any{}
		for _, name := range written {
			if value, ok := all[name]; ok && !emptyMap(value) {
				metadata[name] = value
			}
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			annotations = maps.Clone(annotations)
			delete(annotations, lastApplied)
			metadata["annotations"] = annotations
			if len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
		content["metadata"] = metadata
	}
	return (&unstructured.Unstructured{Object: content}).DeepCopy()
}

func emptyMap(value any) bool {
	m, ok := value.(map[string]any)
	return value == nil || ok && len(m) == 0
}

// Render prints the Manifest of an object as canonical YAML: apiVersion, kind, metadata and then the rest by name.
// Equal manifests give equal bytes. It is an error if the object is no JSON.
func Render(obj *unstructured.Unstructured) ([]byte, error) {
	normal, err := jsonOf(obj)
	if err != nil {
		return nil, fmt.Errorf("printing %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	content := Manifest(normal).Object
	var b bytes.Buffer
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		if value, ok := content[name]; ok {
			if err := section(&b, name, value); err != nil {
				return nil, err
			}
			delete(content, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if err := section(&b, name, content[name]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func section(b *bytes.Buffer, name string, value any) error {
	metadata, ok := value.(map[string]any)
	if name == "metadata" && ok && len(metadata) > 0 {
		b.WriteString("metadata:\n")
		for _, field := range written {
			if v, ok := metadata[field]; ok {
				if err := indented(b, field, v); err != nil {
					return err
				}
			}
		}
		return nil
	}
	data, err := yaml.Marshal(map[string]any{name: value})
	if err != nil {
		return fmt.Errorf("printing %s as YAML: %w", name, err)
	}
	b.Write(data)
	return nil
}

// indented prints one field of the metadata below it.
func indented(b *bytes.Buffer, name string, value any) error {
	data, err := yaml.Marshal(map[string]any{"m": map[string]any{name: value}})
	if err != nil {
		return fmt.Errorf("printing metadata.%s as YAML: %w", name, err)
	}
	b.Write(bytes.TrimPrefix(data, []byte("m:\n")))
	return nil
}
