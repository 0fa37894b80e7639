package schema

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// metadataFields lists the metadata that a user writes, in the order of a manifest.
var metadataFields = []string{"name", "generateName", "namespace", "labels", "annotations"}

// lastApplied is the annotation that kubectl adds to an object that it applies.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Manifest returns a copy of obj reduced to what users write. The status is removed, and all metadata except the name,
// the namespace, labels and annotations.
func Manifest(obj *unstructured.Unstructured) *unstructured.Unstructured {
	content := maps.Clone(obj.Object)
	delete(content, "status")
	if all, ok := content["metadata"].(map[string]any); ok {
		metadata := map[string]any{}
		for _, name := range metadataFields {
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

// Render encodes the Manifest of an object as canonical YAML: apiVersion, kind, metadata and then the rest by name.
// Equal manifests give equal bytes. It is an error if the object cannot be converted to JSON.
func Render(obj *unstructured.Unstructured) ([]byte, error) {
	normal, err := jsonOf(obj)
	if err != nil {
		return nil, fmt.Errorf("printing %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	content := Manifest(normal).Object
	names := append([]string{"apiVersion", "kind", "metadata"}, slices.Sorted(maps.Keys(content))...)
	if metadata, ok := content["metadata"].(map[string]any); ok && len(metadata) > 0 {
		if content["metadata"], err = ordered(metadata, metadataFields); err != nil {
			return nil, err
		}
	}
	document, err := ordered(content, names)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2) // as kubectl prints it
	encoder.CompactSeqIndent()
	if err := encoder.Encode(document); err != nil {
		return nil, fmt.Errorf("printing %s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	return b.Bytes(), nil
}

// ordered encodes a map as YAML, with its keys in the given order, each once.
func ordered(content map[string]any, names []string) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.MappingNode}
	seen := map[string]bool{}
	for _, name := range names {
		value, ok := content[name]
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		var pair [2]yaml.Node
		if err := pair[0].Encode(name); err != nil {
			return nil, fmt.Errorf("printing the name %q as YAML: %w", name, err)
		}
		if err := pair[1].Encode(value); err != nil {
			return nil, fmt.Errorf("printing %s as YAML: %w", name, err)
		}
		node.Content = append(node.Content, &pair[0], &pair[1])
	}
	return node, nil
}
