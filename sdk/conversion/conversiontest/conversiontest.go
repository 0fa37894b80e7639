// Package conversiontest tests a conversion.Kind with generated objects.
//
//	func TestConversion(t *testing.T) {
//		crd, err := conversiontest.ReadCRD("config/crd/teams.yaml")
//		if err != nil {
//			t.Fatal(err)
//		}
//		conversiontest.RoundTrip(t, Team, crd, 100_000)
//	}
//
// The objects are generated from the schemas of the CustomResourceDefinition. For each object, these rules are checked:
//
//   - convert: a valid object can be converted to each version.
//   - valid: the result is valid by the schema of its version, without its defaults, and has no field that the schema
//     lacks. The API server would drop such a field without an error.
//   - kept: the annotation keeps only fields that the declaration permits: see conversion.Kind.OneSided and [MayKeep]. A
//     field for which a lens is missing, or whose functions are not the inverse of each other, is reported by this rule.
//   - round trip: the object is the same after the conversion back.
//   - edit: a client of the other version changes a field. The change is there after the object was stored in the first
//     version, and nothing else has changed.
//   - lost: after that change, the first version still has what it had in all fields that the change does not affect.
//
// The first failing object is reduced to a small one and printed with the seed. Two runs with the same seed generate the
// same objects.
package conversiontest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/sdk/conversion"
)

// ReadCRD reads a CustomResourceDefinition from a file that contains nothing else.
func ReadCRD(file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := os.ReadFile(file) //nolint:gosec // a test names its own file
	if err != nil {
		return nil, fmt.Errorf("reading the CustomResourceDefinition: %w", err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &crd); err != nil {
		return nil, fmt.Errorf("reading the CustomResourceDefinition in %s: %w", file, err)
	}
	if crd.Kind != "CustomResourceDefinition" {
		return nil, fmt.Errorf("%s contains a %q, not a CustomResourceDefinition", file, crd.Kind)
	}
	return &crd, nil
}

// Option is an option of [RoundTrip] and [Fuzz].
type Option func(*suite)

// MayKeep permits that the annotation keeps values of fields of a version, beside those of conversion.Kind.OneSided. A
// path is like "spec.size". Each path should have a comment with the reason in the test.
func MayKeep(version string, paths ...string) Option {
	return func(s *suite) { s.mayKeep[version] = append(s.mayKeep[version], paths...) }
}

// Seed sets the seed of the generated objects, which is 1 by default.
func Seed(seed uint64) Option { return func(s *suite) { s.seed = seed } }

// RoundTrip checks n generated objects, or n/100 with -short. It uses all processors, and reports the first failing object.
func RoundTrip(
	t testing.TB, kind *conversion.Kind, crd *apiextensionsv1.CustomResourceDefinition, n int, opts ...Option,
) {
	t.Helper()
	s, err := newSuite(kind, crd, opts)
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		n = max(n/100, 1)
	}
	t.Logf("the seed is %d", s.seed)
	r := s.run(t.Context(), n)
	if r.failure != nil {
		t.Fatal(s.explain(t.Context(), r.failure))
	}
	t.Logf("%d objects, %d of them with an edit in another version; %d generated objects were invalid",
		r.checked, r.edited, r.invalid)
	if r.checked < n/10 {
		t.Fatalf("only %d of %d generated objects are valid by the schemas and the Go types: this test says little about "+
			"the conversion; the last reason is: %s\nof the CEL rules, only self.matches('...') of a text is known: use "+
			"pattern, format, enum, and the limits of numbers and lengths", r.checked, r.checked+r.invalid, r.reason)
	}
}

// Fuzz runs the checks of [RoundTrip] as a fuzz target. The fuzzer's input is the source of randomness.
func Fuzz(f *testing.F, kind *conversion.Kind, crd *apiextensionsv1.CustomResourceDefinition, opts ...Option) {
	f.Helper()
	s, err := newSuite(kind, crd, opts)
	if err != nil {
		f.Fatal(err)
	}
	for i := range 16 {
		f.Add(seedInput(s.seed, i))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		c := s.generate(&bytesSource{input: input})
		if fail := s.check(t.Context(), c); fail.isViolation() {
			t.Fatal(s.explain(t.Context(), fail))
		}
	})
}

// explain reduces a failing case and describes it.
func (s *suite) explain(ctx context.Context, f *failure) string {
	smallest := f
	fails := func(c testCase) bool {
		next := s.check(ctx, c)
		if next == nil || next.rule != f.rule {
			return false
		}
		smallest = next
		return true
	}
	smaller(f.object, func(candidate map[string]any) bool {
		c := smallest.testCase
		c.object = candidate
		return sameKind(candidate, f.object) && c.from.hasDefaults(candidate) && fails(c)
	})
	smaller(f.other, func(candidate map[string]any) bool {
		c := smallest.testCase
		c.other = candidate
		return fails(c)
	})
	var text strings.Builder
	fmt.Fprintf(&text, "rule %q, seed %d, object %d, %s and %s: %s\n%s", f.rule, s.seed, f.index,
		f.from.name, f.to.name, smallest.message, indent("the object", smallest.object))
	for _, step := range smallest.steps {
		text.WriteString(indent(step.name, step.object))
	}
	return text.String()
}

func sameKind(a, b map[string]any) bool {
	return a["apiVersion"] == b["apiVersion"] && a["kind"] == b["kind"]
}

func indent(name string, object map[string]any) string {
	data, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		return fmt.Sprintf("%s: %v\n", name, err)
	}
	return fmt.Sprintf("%s:\n%s\n", name, data)
}
