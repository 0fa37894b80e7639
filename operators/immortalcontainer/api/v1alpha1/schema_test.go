package v1alpha1_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func definition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	raw, err := os.ReadFile("../../config/crd/immortalcontainer.flugel.it_immortalcontainers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// Programs and users rely on these names.
func TestNames(t *testing.T) {
	t.Parallel()
	spec := definition(t).Spec
	want := apiextensionsv1.CustomResourceDefinitionNames{
		Kind: "ImmortalContainer", ListKind: "ImmortalContainerList", Plural: "immortalcontainers",
		Singular: "immortalcontainer", ShortNames: []string{"imc"}, Categories: []string{"all"},
	}
	if diff := cmp.Diff(want, spec.Names); diff != "" {
		t.Errorf("the names differ (-want +got):\n%s", diff)
	}
	if spec.Group != "immortalcontainer.flugel.it" || spec.Scope != apiextensionsv1.NamespaceScoped {
		t.Errorf("the group is %s and the scope %s", spec.Group, spec.Scope)
	}
	var columns []string
	for _, c := range spec.Versions[0].AdditionalPrinterColumns {
		columns = append(columns, c.Name)
	}
	if got, want := strings.Join(columns, " "), "Image Pod Starts Phase Ready Node Age"; got != want {
		t.Errorf("the columns are %s, want %s", got, want)
	}
}

// `kubectl apply` without --server-side stores the manifest in an annotation, and all annotations of an object are limited
// to 262144 bytes. Most of the manifest are Kubernetes' own types, and they grow.
func TestCRDFitsLastAppliedAnnotation(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(definition(t))
	if err != nil {
		t.Fatal(err)
	}
	if limit := 262144 * 8 / 10; len(raw) > limit {
		t.Errorf("the CRD has %d bytes and should stay below %d: let controller-gen cut the descriptions "+
			"(crd:maxDescLen=300)", len(raw), limit)
	}
}

// Every field needs a description for kubectl explain.
func TestEveryFieldHasADescription(t *testing.T) {
	t.Parallel()
	schema := definition(t).Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, part := range []string{"spec", "status"} {
		fields := schema.Properties[part].Properties
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if fields[name].Description == "" {
				t.Errorf("%s.%s has no description", part, name)
			}
		}
	}
}
