package v1_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// digest matches the digest of an image.
var digest = regexp.MustCompile(`@sha256:[0-9a-f]{64}`)

// make creates a version that equals the current one except for its image and a change of the definitions. OLM needs another
// image: it reports a version with the same manifests as installed, and then forgets it.
func (i *installation) make(version string, change func(*apiextensionsv1.CustomResourceDefinition)) {
	i.t.Helper()
	dir := filepath.Join(i.t.TempDir(), version)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(bundles, i.name))); err != nil {
		i.t.Fatal(err)
	}
	csv := filepath.Join(dir, "manifests", i.name+"-operator.clusterserviceversion.yaml")
	data, err := os.ReadFile(csv)
	if err != nil {
		i.t.Fatal(err)
	}
	text := digest.ReplaceAllString(string(data), fmt.Sprintf("@sha256:%x", sha256.Sum256([]byte(version))))
	if err := os.WriteFile(csv, []byte(strings.ReplaceAll(text, i.Current, version)), 0o600); err != nil {
		i.t.Fatal(err)
	}
	for _, owned := range i.csv(i.Current).Spec.CustomResourceDefinitions.Owned {
		plural, group, _ := strings.Cut(owned.Name, ".")
		file := filepath.Join(dir, "manifests", group+"_"+plural+".yaml")
		crd := &apiextensionsv1.CustomResourceDefinition{}
		i.load(file, crd)
		change(crd)
		i.store(file, crd)
	}
	i.made[version] = dir
}

func (i *installation) load(file string, crd *apiextensionsv1.CustomResourceDefinition) {
	i.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		i.t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		i.t.Fatal(err)
	}
}

func (i *installation) store(file string, crd *apiextensionsv1.CustomResourceDefinition) {
	i.t.Helper()
	data, err := yaml.Marshal(crd)
	if err != nil {
		i.t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		i.t.Fatal(err)
	}
}

// retype changes the type of a field so that stored objects are invalid, and returns the field's path. It returns nothing if
// validation rules mention every field, because the API server would reject the definition.
func retype(crd *apiextensionsv1.CustomResourceDefinition) (path string) {
	for _, version := range crd.Spec.Versions {
		root := version.Schema.OpenAPIV3Schema
		at, schema := "^.", *root
		if spec, ok := root.Properties["spec"]; ok {
			at, schema = "^.spec.", spec
		}
		rules := fmt.Sprint(root.XValidations, schema.XValidations)
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			field := schema.Properties[name]
			free := field.Type == "string" && field.Default == nil && !strings.Contains(rules, "."+name)
			if free && name != "apiVersion" && name != "kind" {
				schema.Properties[name] = apiextensionsv1.JSONSchemaProps{Type: "boolean"}
				path = at + name
				break
			}
		}
	}
	return path
}
