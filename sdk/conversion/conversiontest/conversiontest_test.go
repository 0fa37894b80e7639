package conversiontest

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/sdk/conversion"
)

const versions = `
- name: v1alpha1
  served: true
  schema:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            size: {type: integer, minimum: 0, maximum: 9}
            color: {type: string}
            old: {type: string}
            members:
              type: array
              x-kubernetes-list-type: map
              x-kubernetes-list-map-keys: [name]
              items: {type: object, required: [name], properties: {name: {type: string}, nick: {type: string}}}
- name: v1
  served: true
  storage: true
  schema:
    openAPIV3Schema:
      type: object
      x-kubernetes-validations:
        - {rule: "!has(self.spec) || !has(self.spec.count) || self.spec.count < 10", message: too many}
      properties:
        spec:
          type: object
          properties:
            count: {type: integer, minimum: 0}
            color: {type: string}
            members:
              type: array
              x-kubernetes-list-type: map
              x-kubernetes-list-map-keys: [name]
              items: {type: object, required: [name], properties: {name: {type: string}}}
`

func clubs(t testing.TB) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name = "clubs.example.com"
	crd.Spec.Group = "example.com"
	crd.Spec.Names.Kind = "Club"
	if err := yaml.UnmarshalStrict([]byte(versions), &crd.Spec.Versions); err != nil {
		t.Fatal(err)
	}
	return crd
}

var (
	keys  = map[string][]string{"spec.members": {"name"}}
	size  = conversion.Rename("spec.size", "spec.count")
	old   = conversion.SpokeOnly("spec.old")
	nicks = conversion.Each("spec.members", "spec.members", conversion.SpokeOnly("nick"))
)

func club(lenses ...conversion.Lens) *conversion.Kind {
	return &conversion.Kind{
		GroupKind: schema.GroupKind{Group: "example.com", Kind: "Club"}, Hub: "v1",
		Versions: []conversion.Version{{Name: "v1", ListKeys: keys}, {Name: "v1alpha1", ListKeys: keys, Lenses: lenses}},
	}
}

// The fields of a team have rules that only few texts fulfil, or that only the Go type knows.
const teams = `
openAPIV3Schema:
  type: object
  required: [spec]
  properties:
    spec:
      type: object
      required: [mail]
      properties:
        mail:
          type: string
          maxLength: 60
          x-kubernetes-validations: [{rule: "self.matches('^[^@[:space:]]+@[a-z]{3}\\\\.example$')"}]
        cpu:
          x-kubernetes-int-or-string: true
          anyOf: [{type: integer}, {type: string}]
          pattern: '^([0-9]+)(m|[eE]([0-9]+(\.[0-9]*)?))?$'
        since: {type: string, format: date-time}
        role: {type: string, default: edit, enum: [edit, view]}
`

// team is the Go type of both versions.
type team struct {
	Spec struct {
		Mail  string             `json:"mail"`
		CPU   *resource.Quantity `json:"cpu"`
		Since *metav1.MicroTime  `json:"since"`
		Role  string             `json:"role"`
	} `json:"spec"`
}

// newTeams returns two versions with the same fields, but v1alpha1 has no role.
func newTeams(t *testing.T, lenses ...conversion.Lens) (*conversion.Kind, *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	crd := clubs(t)
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Schema = &apiextensionsv1.CustomResourceValidation{}
		if err := yaml.UnmarshalStrict([]byte(teams), crd.Spec.Versions[i].Schema); err != nil {
			t.Fatal(err)
		}
	}
	delete(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "role")
	kind := club(lenses...)
	for i := range kind.Versions {
		kind.Versions[i].Type = &team{}
		kind.Versions[i].ListKeys = nil
	}
	return kind, crd
}

// Most generated objects fulfil the pattern of a CEL rule and decode as the Go type.
func TestPatternsOfRulesAndGoTypes(t *testing.T) {
	kind, crd := newTeams(t, conversion.HubOnly("spec.role", "edit"))
	s, err := newSuite(kind, crd, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := s.run(t.Context(), 2000)
	if r.failure != nil {
		t.Fatal(s.explain(t.Context(), r.failure))
	}
	if r.checked < 1000 {
		t.Errorf("%d of 2000 objects are valid; the last reason is %s", r.checked, r.reason)
	}
}

// The reduced object is one that the API server stores: it has the defaults.
func TestReducedObjectHasDefaults(t *testing.T) {
	kind, crd := newTeams(t)
	s, err := newSuite(kind, crd, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := s.run(t.Context(), 2000).failure
	if f == nil {
		t.Fatal("the missing lens is not reported")
	}
	text := s.explain(t.Context(), f)
	object, _, _ := strings.Cut(text, "in v1alpha1:")
	if strings.Contains(object, "example.com/v1\"") != strings.Contains(object, `"role": `) {
		t.Errorf("only an object of v1 has a role: %s", text)
	}
}

// A run ends early if no generated object is valid.
func TestNoValidObject(t *testing.T) {
	kind, crd := newTeams(t, conversion.HubOnly("spec.role", "edit"))
	for _, v := range crd.Spec.Versions {
		spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties["mail"].XValidations[0].Rule = "self == 'a@b'"
	}
	s, err := newSuite(kind, crd, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := s.run(t.Context(), 20_000)
	if n := r.invalid; r.checked != 0 || n < maxInvalid || n > 2*maxInvalid {
		t.Errorf("%d valid and %d invalid objects, want none and about %d", r.checked, n, maxInvalid)
	}
}

func TestGoodConversion(t *testing.T) {
	RoundTrip(t, club(size, old, nicks), clubs(t), 2000)
}

// Each mistake in a declaration is reported by the rule that fits.
func TestMistakesAreReported(t *testing.T) {
	shrink := func(n int64) ([]any, error) { return []any{n / 2}, nil }
	grow := func(v []any) (int64, error) { n, _ := v[0].(int64); return n * 2, nil }
	broken := func(n int64) ([]any, error) {
		if n == 7 {
			return nil, errSeven
		}
		return []any{n}, nil
	}
	same := func(v []any) (int64, error) { n, _ := v[0].(int64); return n, nil }
	for name, c := range map[string]struct {
		kind       *conversion.Kind
		rule, want string
	}{
		"a missing lens":        {club(size, nicks), ruleValid, "the schema has no field spec.old"},
		"a missing lens inside": {club(size, old), ruleValid, "].nick"},
		"not the inverse": {
			club(conversion.Split("spec.size", []string{"spec.count"}, shrink, grow), old, nicks),
			ruleKept, "keeps spec.size of v1alpha1",
		},
		"a failing function": {
			club(conversion.Split("spec.size", []string{"spec.count"}, broken, same), old, nicks), ruleConvert, "spec.size: seven",
		},
		"an invalid default": {club(size, old, nicks, conversion.HubOnly("spec.color", 1)), ruleValid, "spec.color"},
		"a broken CEL rule": {
			club(conversion.Split("spec.size", []string{"spec.count"}, func(n int64) ([]any, error) { return []any{n + 5}, nil },
				func(v []any) (int64, error) { n, _ := v[0].(int64); return n - 5, nil }), old, nicks), ruleValid, "too many",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := newSuite(c.kind, clubs(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			f := s.run(t.Context(), 2000).failure
			if f == nil {
				t.Fatal("no mistake is reported")
			}
			text := s.explain(t.Context(), f)
			if !strings.Contains(text, `rule "`+c.rule+`"`) && c.rule != "" || !strings.Contains(text, c.want) {
				t.Errorf("the report is %s", text)
			}
			if n := strings.Count(text, "\n"); n > 60 {
				t.Errorf("the object is not small: %s", text)
			}
		})
	}
}

var errSeven = errors.New("seven")

func TestDeclarationAndCRDDiffer(t *testing.T) {
	noKeys := club(size)
	noKeys.Versions[1].ListKeys = nil
	otherKeys := club(size)
	otherKeys.Versions[1].ListKeys = map[string][]string{"spec.members": {"name"}, "spec.color": {"x"}}
	more := club(size)
	more.Versions = append(more.Versions, conversion.Version{Name: "v2"})
	other := club(size)
	other.GroupKind.Kind = "Team"
	less := clubs(t)
	less.Spec.Versions = append(less.Spec.Versions, *less.Spec.Versions[0].DeepCopy())
	less.Spec.Versions[2].Name = "v0"
	for name, c := range map[string]struct {
		kind *conversion.Kind
		crd  *apiextensionsv1.CustomResourceDefinition
		want string
	}{
		"keys are missing":            {noKeys, clubs(t), `version v1alpha1: ListKeys of spec.members are []`},
		"keys of no list":             {otherKeys, clubs(t), "ListKeys has spec.color, which is no list"},
		"a version is not in the CRD": {more, clubs(t), "has no version v2"},
		"a version is not declared":   {club(size), less, "version v0 of clubs.example.com is in no field Versions"},
		"another kind":                {other, clubs(t), "is not of Team.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := newSuite(c.kind, c.crd, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, not %s", err, c.want)
			}
		})
	}
}

func TestMissingListKeysAreNamed(t *testing.T) {
	crd := clubs(t)
	spec := crd.Spec.Versions[1].Schema.OpenAPIV3Schema.Properties["spec"]
	members := spec.Properties["members"]
	members.XListMapKeys = []string{"kind", "name"}
	spec.Properties["members"] = members
	_, err := newSuite(club(size), crd, nil)
	if want := `write "spec.members": {"kind", "name"}`; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestSameSeedSameObjects(t *testing.T) {
	s, err := newSuite(club(size, old, nicks), clubs(t), []Option{Seed(5)})
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.generate(rand.NewPCG(s.seed, 3)), s.generate(rand.NewPCG(s.seed, 3))
	if difference(a.object, b.object) != "" || a.place != b.place {
		t.Errorf("%v and %v", a, b)
	}
}

func TestMatching(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 1))}
	for _, pattern := range []string{
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, `^a{2,5}b+.c$`, `x|^$`,
		`^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE])?$`,
	} {
		re := regexp.MustCompile(pattern)
		var texts []string
		for range 100 {
			text := g.matching(pattern)
			if !re.MatchString(text) {
				t.Errorf("%q does not match %s", text, pattern)
			}
			texts = append(texts, text)
		}
		slices.Sort(texts)
		if len(slices.Compact(texts)) < 2 {
			t.Errorf("all texts for %s are equal", pattern)
		}
	}
}
