package olm_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/bundle"
	"github.com/homeostat-dev/homeostat/olm"
)

// Each upgrade in the catalogs is compatible.
func TestUpgradesAreSafe(t *testing.T) {
	t.Parallel()
	for _, file := range templates(t) {
		catalog, err := olm.Render(t.Context(), file, find, olm.Published)
		if err != nil {
			t.Fatal(err)
		}
		if err := olm.CheckUpgrades(catalog, find); err != nil {
			t.Error(err)
		}
	}
}

// An upgrade from a skipped version must be compatible as well: 0.2.1 replaces 0.1.0, and 0.2.0 may be installed.
func TestUpgradesFromSkippedVersions(t *testing.T) {
	t.Parallel()
	add := func(_ *apiextensionsv1.CustomResourceDefinition, spec *schema) {
		spec.Properties["tenant"] = schema{Type: "string"}
	}
	keep := func(*apiextensionsv1.CustomResourceDefinition, *schema) {}
	for name, c := range map[string]struct {
		last change
		want string
	}{
		"0.2.1 has what 0.2.0 has":       {add, ""},
		"0.2.1 lacks what 0.2.0 has new": {keep, "removed field : v1.^.spec.tenant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dirs := map[string]string{}
			text := []byte("schema: olm.semver\ngenerateMajorChannels: true\nstable:\n  bundles:\n")
			for version, change := range map[string]change{"0.1.0": keep, "0.2.0": add, "0.2.1": c.last} {
				ref := "homeostat/database-bundle:v" + version
				dirs[ref] = database(t, version, change)
				text = fmt.Appendf(text, "    - image: %s\n", ref)
			}
			file := filepath.Join(t.TempDir(), "database.yaml")
			if err := os.WriteFile(file, text, 0o644); err != nil {
				t.Fatal(err)
			}
			find := func(ref string) (string, error) { return dirs[ref], nil }
			catalog, err := olm.Render(t.Context(), file, find, olm.Published)
			if err != nil {
				t.Fatal(err)
			}
			if left := withoutUpgrade(catalog); len(left) > 0 {
				t.Errorf("no upgrade leads from %v to the last version: %+v", left, catalog.Channels[0].Entries)
			}
			err = olm.CheckUpgrades(catalog, find)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

type schema = apiextensionsv1.JSONSchemaProps

// A change modifies the definition of Databases and their spec.
type change func(crd *apiextensionsv1.CustomResourceDefinition, spec *schema)

// database returns a version of the bundle with a changed definition.
func database(t *testing.T, version string, change change) (dir string) {
	t.Helper()
	const current = "../bundle/database"
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(current)); err != nil {
		t.Fatal(err)
	}
	now, err := bundle.Version(current)
	csv := filepath.Join(dir, "manifests/database-operator.clusterserviceversion.yaml")
	data, err2 := os.ReadFile(csv)
	data = bytes.ReplaceAll(data, []byte(now), []byte(version))
	if err := errors.Join(err, err2, os.WriteFile(csv, data, 0o644)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "manifests/techoral.com_databases.yaml")
	data, err = os.ReadFile(file)
	var crd apiextensionsv1.CustomResourceDefinition
	if err := errors.Join(err, yaml.Unmarshal(data, &crd)); err != nil {
		t.Fatal(err)
	}
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	spec := root.Properties["spec"]
	change(&crd, &spec)
	root.Properties["spec"] = spec
	if data, err = yaml.Marshal(crd); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A definition that could make objects invalid is rejected, and the message names the field. Other changes are accepted.
func TestCompatible(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change change
		want   string
	}{
		"nothing": {func(*apiextensionsv1.CustomResourceDefinition, *schema) {}, ""},
		"another text": {func(_ *apiextensionsv1.CustomResourceDefinition, spec *schema) {
			spec.Description = "Something else."
		}, ""},
		"a further field": {func(_ *apiextensionsv1.CustomResourceDefinition, spec *schema) {
			spec.Properties["tenant"] = schema{Type: "string"}
		}, ""},
		"a field that is needed": {func(_ *apiextensionsv1.CustomResourceDefinition, spec *schema) {
			spec.Required = append(spec.Required, "replicas")
		}, "^.spec: required"},
		"another type": {func(_ *apiextensionsv1.CustomResourceDefinition, spec *schema) {
			spec.Properties["replicas"] = schema{Type: "string"}
		}, "^.spec.replicas: type"},
		"a field is gone": {func(_ *apiextensionsv1.CustomResourceDefinition, spec *schema) {
			delete(spec.Properties, "replicas")
		}, "^.spec.replicas"},
		"a further rule": {func(_ *apiextensionsv1.CustomResourceDefinition, spec *schema) {
			spec.XValidations = append(spec.XValidations, apiextensionsv1.ValidationRule{Rule: "self.replicas < 3"})
		}, "^.spec: unhandled"},
		"a kind is gone": {func(crd *apiextensionsv1.CustomResourceDefinition, _ *schema) {
			crd.Name = "databanks.techoral.com"
		}, "the definition is gone"},
		"a version is gone": {func(crd *apiextensionsv1.CustomResourceDefinition, _ *schema) {
			crd.Spec.Versions[0].Name = "v2"
		}, "v1: it is no longer served"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := olm.CheckCompatible("../bundle/database", database(t, "0.9.0", c.change))
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want == "":
			case err == nil || !strings.Contains(err.Error(), "databases.techoral.com: ") || !strings.Contains(err.Error(), c.want):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
