package schema_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/manifest"
	"github.com/homeostat-dev/homeostat/testkit/internal/schema"
)

func TestNew(t *testing.T) {
	t.Parallel()
	s := database(t)
	if got, want := s.Kind.String(), "testkit.homeostat.dev/v1, Kind=Database"; got != want || !s.Namespaced {
		t.Errorf("read %s, namespaced %v; want %s in a namespace", got, s.Namespaced, want)
	}
	for _, p := range []string{
		"metadata.labels", "spec", "spec.users[*].databases[*]", "spec.resources.limits[*]", "spec.exposure.nodePort.port",
	} {
		if !slices.Contains(s.Properties(), p) {
			t.Errorf("the properties lack %s: %v", p, s.Properties())
		}
	}
	for _, p := range []string{"status", "status.members", "metadata", "apiVersion"} {
		if slices.Contains(s.Properties(), p) {
			t.Errorf("%s is among the properties, but users do not change it", p)
		}
	}
}

func TestSemantic(t *testing.T) {
	t.Parallel()
	s := database(t)
	tests := map[string]bool{
		"spec.members": true, "spec.image": true, "spec.timeout": true, "spec.storage.size": true, "spec.resources": true,
		"spec.resources.requests[*]": true, "spec.backup.schedule": true, "spec.tolerations": true, "spec.podLabels": true,
		"metadata.labels": true, "spec.exposure.nodePort.port": true,
		"spec.engine": false, "spec.version": false, "spec.priority": false, "spec.arguments": false, "no.such": false,
	}
	for property, want := range tests {
		if got := s.Semantic(property); got != want {
			t.Errorf("Semantic(%s) is %v, want %v", property, got, want)
		}
	}
}

func TestScaleSubresourceMarksReplicas(t *testing.T) {
	t.Parallel()
	crd := strings.ReplaceAll(read(t, "testdata/crd/databases.yaml"), "members", "strength")
	s, err := schema.Parse([]byte(crd), "")
	if err != nil {
		t.Fatal(err)
	}
	if !s.Semantic("spec.strength") {
		t.Error("the property named by the scale subresource is not recognized as a number of replicas")
	}
}

func TestParseRejects(t *testing.T) {
	t.Parallel()
	crd := read(t, "testdata/crd/databases.yaml")
	tests := map[string]struct {
		reason, data, version, want string
	}{
		"no definition": {
			reason: "the file has a sample instead",
			data:   read(t, "testdata/database.yaml"), want: "there are 0 in the data [], give one",
		},
		"two definitions": {
			reason: "it is ambiguous",
			data:   crd + "\n---\n" + read(t, "testdata/oddities.yaml"),
			want:   "there are 2 in the data [databases.testkit.homeostat.dev oddities.testkit.homeostat.dev]",
		},
		"not YAML": {reason: "it cannot be read", data: "a: [", want: "reading a CustomResourceDefinition: decoding"},
		"old version of the API": {
			reason: "v1beta1 has no structural schemas",
			data:   strings.Replace(crd, "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1", 1),
			want:   `its apiVersion is "apiextensions.k8s.io/v1beta1", only "apiextensions.k8s.io/v1" is supported`,
		},
		"unknown version": {
			reason: "the definition has another one",
			data:   crd, version: "v2", want: `it has no version "v2" but v1`,
		},
		"no schema": {
			reason: "changes cannot be generated without one",
			data: "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n" +
				"spec: {versions: [{name: v1, storage: true}]}",
			want: "it has no schema.openAPIV3Schema",
		},
		"not structural": {
			reason: "the API server would reject it",
			data:   strings.Replace(crd, "image: {type: string}", "image: {}", 1),
			want:   "the schema is not structural",
		},
		"not supported": {
			reason: "the API server would reject it",
			data:   strings.Replace(crd, "image: {type: string}", "image: {$ref: a}", 1),
			want:   "ref",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := schema.Parse([]byte(tc.data), tc.version)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s\nerror %v\nwant one with %q", tc.reason, err, tc.want)
			}
		})
	}
}

func TestObjectOfAnotherKind(t *testing.T) {
	t.Parallel()
	obj := sample(t)
	obj.SetAPIVersion("testkit.homeostat.dev/v2")
	_, err := database(t).Mutations(obj)
	const want = "Database orders is a testkit.homeostat.dev/v2, Kind=Database, but the schema is that of " +
		"testkit.homeostat.dev/v1, Kind=Database: give an object of this kind and version"
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
	obj = sample(t)
	obj.Object["spec"] = func() {}
	if _, err := database(t).Mutations(obj); err == nil {
		t.Error("a function was accepted as JSON")
	}
}

func TestViolations(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		path   schema.Path
		value  any
		want   string
	}{
		"none": {
			reason: "the sample is valid",
			path:   schema.At("spec", "image"), value: "a",
		},
		"unknown property": {
			reason: "it would be pruned, and rejected by strict validation",
			path:   schema.At("spec", "imaeg"), value: "a",
			want: "spec.imaeg: Forbidden: the schema has no such property",
		},
		"same key twice": {
			reason: "the list is a map",
			path:   schema.At("spec", "users", 1, "name"), value: "app",
			want: `spec.users[1]: Duplicate value: {"name":"app"}`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj, _ := schema.Change{Path: tc.path, To: tc.value}.Apply(sample(t))
			errs, err := database(t).Violations(obj)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(errs) > 0 {
				got = errs.ToAggregate().Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func database(t testing.TB) *schema.Schema {
	t.Helper()
	return parse(t, "testdata/crd/databases.yaml")
}

func parse(t testing.TB, file string) *schema.Schema {
	t.Helper()
	s, err := schema.Parse([]byte(read(t, file)), "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sample(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	return first(t, database(t), "testdata/database.yaml")
}

// first reads the first object of a file.
func first(t testing.TB, s *schema.Schema, file string) *unstructured.Unstructured {
	t.Helper()
	objects, err := manifest.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	obj, err := s.Normal(objects[0])
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func read(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
