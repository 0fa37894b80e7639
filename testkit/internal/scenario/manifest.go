package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ReadCRDs reads CustomResourceDefinitions from a file, or from the files of a folder, outside of a scenario. It ignores
// other objects beside them, as in the output of helm template. The error holds an [*Error] for each mistake, or reports
// that there is no such file.
func ReadCRDs(path string) ([]*unstructured.Unstructured, error) {
	r, all, err := readManifests(path)
	if err != nil {
		return nil, err
	}
	isOther := func(o located) bool { return o.content.GetKind() != crdKind }
	if slices.ContainsFunc(all, func(o located) bool { return !isOther(o) }) {
		all = slices.DeleteFunc(all, isOther)
	}
	crds := r.define(all, "give a file that holds one")
	for _, o := range all {
		if err := validate(o); err != nil {
			r.errs = append(r.errs, err)
		}
	}
	return crds, errors.Join(r.errs...)
}

// ReadObjects does the same for objects of any kinds and namespaces.
func ReadObjects(path string) ([]*unstructured.Unstructured, error) {
	r, all, err := readManifests(path)
	if err != nil {
		return nil, err
	}
	objects := make([]*unstructured.Unstructured, 0, len(all))
	for _, o := range all {
		objects = append(objects, o.content)
	}
	return objects, errors.Join(r.errs...)
}

func readManifests(path string) (*reader, []located, error) {
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("there is no file or folder %s: correct the path", path)
	case err != nil:
		return nil, nil, fmt.Errorf("looking for manifests: %w", err)
	}
	r := &reader{document: &document{file: path}, kinds: kinds{}, anywhere: true}
	all := r.files(&yaml.Node{Kind: yaml.ScalarNode, Tag: stringTag, Value: path, Line: 1}, path)
	return r, all, errors.Join(r.errs...)
}
