package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Folders of a bundle, in its folder and in its image.
const (
	manifestsFolder = "manifests"
	metadataFolder  = "metadata"
	scorecardFolder = "tests/scorecard"
)

// annotations returns the metadata of the bundle. Its image has the same labels.
func (b *Bundle) annotations() map[string]string {
	const bundle, test = "operators.operatorframework.io.bundle.", "operators.operatorframework.io.test."
	return map[string]string{
		bundle + "mediatype.v1":       "registry+v1",
		bundle + "manifests.v1":       manifestsFolder + "/",
		bundle + "metadata.v1":        metadataFolder + "/",
		bundle + "package.v1":         b.Package,
		bundle + "channels.v1":        Channel,
		bundle + "channel.default.v1": Channel,
		test + "mediatype.v1":         "scorecard+v1",
		test + "config.v1":            scorecardFolder + "/",
	}
}

// files returns the files of the bundle, by path.
func (b *Bundle) files() (map[string][]byte, error) {
	csv, err := toUnstructured(b.CSV)
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{}
	write := func(path string, value any) {
		data, failed := yaml.Marshal(value)
		all[path], err = data, errors.Join(err, failed)
	}
	write(filepath.Join(manifestsFolder, b.Package+".clusterserviceversion.yaml"), csv)
	for _, o := range b.Objects {
		name := o.GetName() + "_" + strings.ToLower(o.GetKind()) + ".yaml"
		if o.GetKind() == kindDefinition {
			plural, group, _ := strings.Cut(o.GetName(), ".")
			name = group + "_" + plural + ".yaml"
		}
		write(filepath.Join(manifestsFolder, name), o.Object)
	}
	write(filepath.Join(metadataFolder, "annotations.yaml"), map[string]any{"annotations": b.annotations()})
	config := filepath.Join(scorecardFolder, "config.yaml")
	write(config, scorecard())
	all[config] = append([]byte(scorecardNote), all[config]...)
	all["bundle.Dockerfile"] = b.dockerfile()
	if err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return all, nil
}

// toUnstructured converts a ClusterServiceVersion, without empty fields and fields that the cluster sets.
func toUnstructured(o *v1alpha1.ClusterServiceVersion) (map[string]any, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("reading the ClusterServiceVersion: %w", err)
	}
	delete(object, "status")
	var clean func(value any)
	clean = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			if value["creationTimestamp"] == nil {
				delete(value, "creationTimestamp")
			}
			for _, v := range value {
				clean(v)
			}
		case []any:
			for _, v := range value {
				clean(v)
			}
		}
	}
	clean(object)
	if !o.Spec.Cleanup.Enabled {
		unstructured.RemoveNestedField(object, "spec", "cleanup")
	}
	if len(o.Spec.APIServiceDefinitions.Owned)+len(o.Spec.APIServiceDefinitions.Required) == 0 {
		unstructured.RemoveNestedField(object, "spec", "apiservicedefinitions")
	}
	deployments, _, _ := unstructured.NestedSlice(object, "spec", "install", "spec", "deployments")
	for _, d := range deployments {
		d, _ := d.(map[string]any)
		if strategy, _, _ := unstructured.NestedMap(d, "spec", "strategy"); len(strategy) == 0 {
			unstructured.RemoveNestedField(d, "spec", "strategy")
		}
	}
	if err := unstructured.SetNestedSlice(object, deployments, "spec", "install", "spec", "deployments"); err != nil {
		return nil, fmt.Errorf("writing the Deployments: %w", err)
	}
	return object, nil
}

// scorecardNote explains the images in the configuration, because no public registry is assumed.
const scorecardNote = `# The images name no registry. To run operator-sdk scorecard, put the one that you have before
# their names, in a copy of this file for --config. What they check, make bundle checks without a cluster.
`

// scorecard returns the configuration of operator-sdk's scorecard tests.
func scorecard() map[string]any {
	storage := map[string]any{"spec": map[string]any{"mountPath": map[string]any{}}}
	test := func(suite, name string) map[string]any {
		return map[string]any{
			"entrypoint": []string{"scorecard-test", name}, "image": "operator-framework/scorecard-test:v1.42.3",
			"labels": map[string]any{"suite": suite, "test": name + "-test"}, "storage": storage,
		}
	}
	var tests []any
	for _, name := range []string{
		"basic-check-spec", "olm-bundle-validation", "olm-crds-have-validation", "olm-crds-have-resources", "olm-spec-descriptors",
		"olm-status-descriptors",
	} {
		suite, _, _ := strings.Cut(name, "-")
		tests = append(tests, test(suite, name))
	}
	return map[string]any{
		"apiVersion": "scorecard.operatorframework.io/v1alpha3", "kind": "Configuration",
		"metadata": map[string]any{"name": "config"},
		"stages":   []any{map[string]any{"parallel": true, "tests": tests}},
		"storage":  storage,
	}
}

// dockerfile returns the Dockerfile of the bundle's image. Its context is the bundle's folder.
func (b *Bundle) dockerfile() []byte {
	var text strings.Builder
	text.WriteString("FROM scratch\n")
	annotations := b.annotations()
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		fmt.Fprintf(&text, "LABEL %s=%s\n", key, annotations[key])
	}
	for _, folder := range []string{manifestsFolder, metadataFolder, scorecardFolder} {
		fmt.Fprintf(&text, "COPY %s /%s/\n", folder, folder)
	}
	return []byte(text.String())
}

// Write replaces the content of the folder dir with the bundle.
func (b *Bundle) Write(dir string) error {
	files, err := b.files()
	if err != nil {
		return err
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	defer func() { _ = os.RemoveAll(partial) }()
	for path, data := range files {
		file := filepath.Join(partial, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o644)); err != nil {
			return fmt.Errorf("writing the bundle: %w", err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	if err := os.Rename(partial, dir); err != nil {
		return fmt.Errorf("putting the bundle in place: %w", err)
	}
	return nil
}

// decode decodes the JSON of an annotation.
func decode(text string, to any) error {
	if err := json.Unmarshal([]byte(text), to); err != nil {
		return fmt.Errorf("reading JSON: %w", err)
	}
	return nil
}
