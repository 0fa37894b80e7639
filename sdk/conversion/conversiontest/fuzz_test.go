package conversiontest

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/sdk/conversion"
)

// oneValue has objects that no client can change.
const oneValue = `
openAPIV3Schema:
  type: object
  required: [spec]
  properties:
    spec:
      type: object
      required: [mode]
      properties:
        mode: {type: string, enum: [only]}
`

// An object without a valid edit breaks no rule.
func FuzzWithoutEdit(f *testing.F) {
	crd := clubs(f)
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Schema = nil
		if err := yaml.UnmarshalStrict([]byte(oneValue), &crd.Spec.Versions[i].Schema); err != nil {
			f.Fatal(err)
		}
	}
	kind := club()
	kind.Versions = []conversion.Version{{Name: "v1"}, {Name: "v1alpha1"}}
	Fuzz(f, kind, crd)
}
