// Package manifest reads Kubernetes objects from YAML and JSON files and sends them to an API server.
//
// It reads files as they are: no templates, no overlays.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// decoderBuffer is the number of bytes that the decoder inspects to distinguish JSON from YAML.
const decoderBuffer = 4096

var extensions = []string{".yaml", ".yml", ".json"}

// Read returns the objects in a file, or in the files of a folder but not of its subfolders, in the order of file
// names. Documents without a kind, such as a kustomization, are left out; a folder without any object is an error.
func Read(name string) ([]*unstructured.Unstructured, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	if info.IsDir() {
		return ReadFS(os.DirFS(name), ".", name)
	}
	return ReadFS(os.DirFS(filepath.Dir(name)), filepath.Base(name), name)
}

// ReadFS is Read for a file system. Errors contain the label.
func ReadFS(fsys fs.FS, name, label string) ([]*unstructured.Unstructured, error) {
	files, err := list(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("reading manifests in %s: %w", label, err)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, fmt.Errorf("reading manifests in %s: %w", label, err)
		}
		decoded, err := Decode(data)
		if err != nil {
			return nil, fmt.Errorf("reading manifests in %s: %s: %w", label, path.Base(file), err)
		}
		objects = append(objects, decoded...)
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("reading manifests in %s: no object found in its .yaml, .yml and .json files", label)
	}
	return objects, nil
}

func list(fsys fs.FS, name string) ([]string, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := fs.ReadDir(fsys, name)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains(extensions, path.Ext(entry.Name())) {
			files = append(files, path.Join(name, entry.Name()))
		}
	}
	return files, nil
}

// Decode returns the objects of a YAML stream or of JSON documents. It skips documents that are no Kubernetes objects.
func Decode(data []byte) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), decoderBuffer)
	var objects []*unstructured.Unstructured
	for {
		var content map[string]any
		if err := decoder.Decode(&content); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("decoding: %w", err)
		}
		u := &unstructured.Unstructured{Object: content}
		if u.GetKind() == "" || u.GetName() == "" {
			continue
		}
		objects = append(objects, u)
	}
}

// FromObject converts a Go object. Its kind comes from the scheme, so TypeMeta may be empty.
func FromObject(object client.Object, scheme *runtime.Scheme) (*unstructured.Unstructured, error) {
	gvk, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", object, err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("converting %s: %w", gvk.Kind, err)
	}
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// ToObject overwrites a Go object with the content of u.
func ToObject(u *unstructured.Unstructured, object client.Object) error {
	if target, ok := object.(*unstructured.Unstructured); ok {
		u.DeepCopyInto(target)
		return nil
	}
	value := reflect.ValueOf(object).Elem()
	value.SetZero()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
		return fmt.Errorf("converting %s to %T: %w", u.GetKind(), object, err)
	}
	return nil
}
