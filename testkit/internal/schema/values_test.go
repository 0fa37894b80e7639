package schema

import (
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// schemaWith returns a schema with the property spec.p.
func schemaWith(t *testing.T, name string, props apiextensionsv1.JSONSchemaProps) *Schema {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Names.Kind = "One"
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: typeObject, Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"spec": {Type: typeObject, Properties: map[string]apiextensionsv1.JSONSchemaProps{name: props}},
			},
		}},
	}}
	s, err := New(crd, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func objectWith(s *Schema, name string, value any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{name: value}}}
	obj.SetGroupVersionKind(s.Kind)
	obj.SetName("one")
	return obj
}

// TestFormats checks that the API server accepts the values listed for a format, and that it validates the format.
func TestFormats(t *testing.T) {
	t.Parallel()
	for _, format := range slices.Sorted(maps.Keys(formats)) {
		s := schemaWith(t, "p", apiextensionsv1.JSONSchemaProps{Type: typeString, Format: format})
		for _, v := range formats[format] {
			if errs, err := s.Violations(objectWith(s, "p", v.value)); err != nil || len(errs) > 0 {
				t.Errorf("%q is no %s: %v %v", v.value, format, err, errs)
			}
		}
		errs, err := s.Violations(objectWith(s, "p", "%zz"))
		if refused := err != nil || len(errs) > 0; refused == (format == "password") { // which accepts any string
			t.Errorf("an invalid string is rejected as %s: %v", format, refused)
		}
	}
}

func TestSample(t *testing.T) {
	t.Parallel()
	deep := "^" + strings.Repeat("(", 200) + strings.Repeat("a*)*", 200) + "$"
	tests := map[string]struct {
		reason  string
		lengths []int // reachable exactly
	}{
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`: {
			"a DNS label grows in the middle", []int{1, 2, 63},
		},
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]+)*$`: {
			"a DNS name", []int{1, 63, 253},
		},
		`^(\d+)(s|m|h)$`: {
			"alternatives", []int{2, 9},
		},
		`^v[0-9]+(\.[0-9]+){2}$`: {
			"a fixed number of parts", []int{6, 20},
		},
		`^(https?|ftp)://[^\s/$.?#].[^\s]*$`: {
			"classes that exclude", []int{9, 40},
		},
		`(?i)^true|false$`: {
			"case does not matter", nil,
		},
		`^.{3,5}$`: {
			"anything", []int{3, 4, 5},
		},
		`^\p{Greek}+$`: {
			"no Latin letter", []int{1, 5},
		},
		`^$`: {
			"nothing", []int{0},
		},
		`x*`: {
			"no anchors", []int{0, 10},
		},
		`^((((a*)*b?)*c{0,50})*)*(foo|bar){2,3}\b.?$`: {
			"nested repetitions take no time", nil,
		},
		deep: {
			"nor do very many", nil,
		},
		`^(a{1000}){1}$`: {
			"long", []int{1000},
		},
	}
	for pattern, tc := range tests {
		t.Run(pattern[:min(len(pattern), 40)], func(t *testing.T) {
			t.Parallel()
			re := regexp.MustCompile(pattern)
			parsed, err := syntax.Parse(pattern, syntax.Perl)
			if err != nil {
				t.Fatal(err)
			}
			for pick := range 4 {
				if got := sample(parsed, pick, 0); !re.MatchString(got) {
					t.Errorf("%s: pick %d: %q does not match", tc.reason, pick, got)
				}
			}
			for _, n := range tc.lengths {
				if got := sample(parsed, 0, n); !re.MatchString(got) || utf8.RuneCountInString(got) != n {
					t.Errorf("%s: %q has not %d characters, or does not match", tc.reason, got, n)
				}
			}
		})
	}
}

// TestCountsStaySmall checks that the number of objects to create stays small, even if the schema allows more.
func TestCountsStaySmall(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"replicas", "maxReplicas", "instances", "shards", "nodeCount"} {
		s := schemaWith(t, name, apiextensionsv1.JSONSchemaProps{Type: typeInteger})
		obj := objectWith(s, name, int64(4))
		for range 30 {
			changes, err := s.MutationsOf(obj, "spec."+name)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				if n, ok := c.To.(int64); ok && (n < 0 || n > maxObjects) {
					t.Fatalf("%s: %v", name, c)
				}
			}
			obj, _ = changes[0].Apply(obj)
		}
	}
}

// TestListsStayShort checks that lists and maps do not grow without bound.
func TestListsStayShort(t *testing.T) {
	t.Parallel()
	element := apiextensionsv1.JSONSchemaProps{Type: typeString}
	tests := map[string]struct {
		reason string
		props  apiextensionsv1.JSONSchemaProps
	}{
		"list": {"it may have any length", apiextensionsv1.JSONSchemaProps{
			Type: typeArray, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &element},
		}},
		"map": {"it may have any number of keys", apiextensionsv1.JSONSchemaProps{
			Type: typeObject, AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &element},
		}},
	}
	for name, tc := range tests {
		s := schemaWith(t, "p", tc.props)
		obj := objectWith(s, "p", Absent)
		delete(obj.Object["spec"].(map[string]any), "p")
		longest := 0
		for range 3 * longestList {
			changes, err := s.MutationsOf(obj, "spec.p")
			if err != nil {
				t.Fatal(err)
			}
			grown := slices.IndexFunc(changes, func(c Change) bool {
				return strings.HasPrefix(c.Kind, "add-") && c.Kind != "add-empty" || c.Kind == "push"
			})
			if grown < 0 {
				break
			}
			obj, _ = changes[grown].Apply(obj)
			longest++
		}
		if longest != longestList {
			t.Errorf("%s: %s, and grew to %d and not to %d", name, tc.reason, longest, longestList)
		}
	}
}

// TestKnownValues checks that every value for a part of the Kubernetes API is JSON and has a unique name.
func TestKnownValues(t *testing.T) {
	t.Parallel()
	for i, k := range knownSchemas {
		if k.whole == nil {
			continue
		}
		for _, current := range []any{Absent, map[string]any{}, []any{}, map[string]any{"a": "b"}} {
			kinds := map[string]bool{}
			for _, v := range k.whole(&node{name: "labels"}, current) {
				if kinds[v.kind] || v.value == nil || !v.semantic {
					t.Errorf("%d: %s is duplicate, or has no value, or is not semantic: %v", i, v.kind, v.value)
				}
				kinds[v.kind] = true
			}
		}
	}
}

// TestKnownParts checks that recognized properties get values that fit the real types.
func TestKnownParts(t *testing.T) {
	t.Parallel()
	props := func(names ...string) map[string]apiextensionsv1.JSONSchemaProps {
		all := map[string]apiextensionsv1.JSONSchemaProps{}
		preserve := true
		for _, name := range names {
			all[name] = apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: &preserve}
		}
		return all
	}
	list := func(names ...string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: typeArray, Items: &apiextensionsv1.JSONSchemaPropsOrArray{
			Schema: &apiextensionsv1.JSONSchemaProps{Type: typeObject, Properties: props(names...)},
		}}
	}
	obj := func(names ...string) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: typeObject, Properties: props(names...)}
	}
	tests := map[string]struct {
		reason string
		props  apiextensionsv1.JSONSchemaProps
		want   string
	}{
		"resources":       {"a container's", obj("limits", "requests", "claims"), "p/guaranteed"},
		"probe":           {"a container's", obj("exec", "httpGet", "tcpSocket", "failureThreshold", "periodSeconds"), "p/tcp"},
		"affinity":        {"a pod's", obj("nodeAffinity", "podAffinity", "podAntiAffinity"), "p/no-such-node"},
		"selector":        {"a workload's", obj("matchLabels", "matchExpressions"), "p/expressions"},
		"securityContext": {"a pod's", obj("runAsUser", "runAsNonRoot"), "p/contradiction"},
		"tolerations":     {"a pod's", list("key", "operator", "value", "effect", "tolerationSeconds"), "p/everything"},
		"spread":          {"a pod's", list("maxSkew", "topologyKey", "whenUnsatisfiable"), "p/hard"},
		"environment":     {"a container's", list("name", "value", "valueFrom"), "p/add-variable"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := schemaWith(t, "p", tc.props)
			bare := objectWith(s, "p", nil)
			bare.Object["spec"] = map[string]any{}
			changes, err := s.MutationsOf(bare, "spec.p")
			if err != nil {
				t.Fatal(err)
			}
			ids := map[string]bool{}
			for _, c := range changes {
				ids[c.ID] = c.Semantic
			}
			if !ids["spec."+tc.want] {
				t.Errorf("%s: no %s among %v", tc.reason, tc.want, fmt.Sprint(changes))
			}
		})
	}
}
