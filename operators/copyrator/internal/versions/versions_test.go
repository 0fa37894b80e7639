package versions_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	v2 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v2"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/versions"
	"github.com/homeostat-dev/homeostat/sdk/conversion"
	"github.com/homeostat-dev/homeostat/sdk/conversion/conversiontest"
)

// mayKeep are the fields with values that the other version does not have: the forms of a selector and of a list of names in
// v1, and the order of expressions and names in v2.
var mayKeep = []conversiontest.Option{
	conversiontest.MayKeep("v1", "selector", "namespace", "namespaces"),
	conversiontest.MayKeep("v2", "spec.source.selector", "spec.source.namespaces"),
}

// Nothing is lost of objects with any values that the schemas permit.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	conversiontest.RoundTrip(t, versions.Conversion, readCRD(t), 100_000, mayKeep...)
}

func FuzzRoundTrip(f *testing.F) { conversiontest.Fuzz(f, versions.Conversion, readCRD(f), mayKeep...) }

func readCRD(t testing.TB) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd, err := conversiontest.ReadCRD("../../config/crd/flant.com_copyrators.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return crd
}

// rule returns an object from its fields.
func rule(t *testing.T, version, fields string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(fields), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetAPIVersion("flant.com/" + version)
	u.SetKind("CopyratorRule")
	u.SetName("a")
	return u
}

func convert(t *testing.T, u *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	converted, err := versions.Conversion.Convert(u, version)
	if err != nil {
		t.Fatal(err)
	}
	return converted
}

// A field of one version becomes the documented one of the other.
func TestConversion(t *testing.T) {
	t.Parallel()
	tooMany := strings.TrimSuffix(strings.Repeat("a, ", 65), ", ")
	for name, tc := range map[string]struct{ v1, v2, back string }{
		"map and name": {
			`{selector: {a: b}, namespace: x}`,
			`{selector: {matchLabels: {a: b}}, namespaces: [x]}`, `{selector: {a: b}, namespaces: [x]}`,
		},
		"text and lists": {
			`{selector: "a==b, c in (e,d), f!=g, !h, i > 5", namespace: [p, q], namespaces: [q, r]}`,
			`{selector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: In, values: [d, e]},
				{key: f, operator: NotIn, values: [g]}, {key: h, operator: DoesNotExist}, {key: i, operator: Gt, values: ["5"]}]},
				namespaces: [p, q, r]}`,
			`{selector: "a=b,c in (d,e),f notin (g),!h,i>5", namespaces: [p, q, r]}`,
		},
		"one label with two values": {
			`{selector: "a=b,a=c"}`,
			`{selector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [c]}]}}`,
			`{selector: "a=b,a in (c)"}`,
		},
		"neither a map nor a text": {
			`{selector: [a], namespace: {a: b}, namespaces: [x]}`,
			`{selector: {matchExpressions: [{key: '["a"]', operator: Malformed}]}, namespaces: ['namespace: {"a":"b"}', x]}`,
			`{selector: [a], namespace: {a: b}, namespaces: [x]}`,
		},
		"no selector": {
			`{selector: "a in"}`,
			`{selector: {matchExpressions: [{key: '"a in"', operator: Malformed}]}}`, `{selector: "a in"}`,
		},
		"a name that no namespace has": {
			`{selector: {a: b}, namespace: Not-a-Name, namespaces: [x]}`,
			`{selector: {matchLabels: {a: b}}, namespaces: [Not-a-Name, x]}`,
			`{selector: {a: b}, namespace: [Not-a-Name, x]}`,
		},
		"too many names": {
			`{selector: {a: b}, namespace: [` + tooMany + `]}`,
			`{selector: {matchLabels: {a: b}}, namespaces: ['namespace: [` +
				strings.ReplaceAll(strings.ReplaceAll(tooMany, "a", `"a"`), " ", "") + `]']}`,
			`{selector: {a: b}, namespace: [` + tooMany + `]}`,
		},
	} {
		spoke, want := rule(t, "v1", tc.v1), rule(t, "v2", `{spec: {source: `+tc.v2+`}}`)
		hub := convert(t, spoke, "v2")
		if diff := cmp.Diff(want.Object["spec"], hub.Object["spec"]); diff != "" {
			t.Errorf("%s in v2 (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(spoke.Object, convert(t, hub, "v1").Object); diff != "" {
			t.Errorf("%s is not the same after the way back (-want +got):\n%s", name, diff)
		}
		hub.SetAnnotations(nil)
		if diff := cmp.Diff(rule(t, "v1", tc.back).Object, without(convert(t, hub, "v1"))); diff != "" {
			t.Errorf("%s without the annotation (-want +got):\n%s", name, diff)
		}
	}
}

func without(u *unstructured.Unstructured) map[string]any {
	u.SetAnnotations(nil)
	return u.Object
}

// What v1 cannot express survives a change by a client of v1.
func TestKeptExpressions(t *testing.T) {
	t.Parallel()
	const source = `{kind: Secret, namespaces: [b, a], selector: {matchLabels: {z: "1"}, matchExpressions: [
		{key: b, operator: In, values: [d, c]}, {key: a, operator: Exists}]}}`
	hub := rule(t, "v2", `{spec: {source: `+source+`}}`)
	spoke := convert(t, hub, "v1")
	if got, want := spoke.Object["selector"], "a,b in (c,d),z=1"; got != want {
		t.Errorf("the selector in v1 is %v, want %s", got, want)
	}
	spoke.Object["suspend"] = true
	changed := convert(t, spoke, "v2")
	want := rule(t, "v2", `{spec: {suspend: true, source: `+source+`}}`)
	if diff := cmp.Diff(want.Object, changed.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	spoke.Object["selector"] = "a"
	changed = convert(t, spoke, "v2")
	want = rule(t, "v2", `{spec: {source: {selector: {matchExpressions: [{key: a, operator: Exists}]}}}}`)
	got, _, _ := unstructured.NestedMap(changed.Object, "spec", "source", "selector")
	if diff := cmp.Diff(want.Object["spec"].(map[string]any)["source"].(map[string]any)["selector"], any(got)); diff != "" {
		t.Errorf("after a change of the selector (-want +got):\n%s", diff)
	}
}

// No object of v1 without other annotations fails to convert because it is large: that would break the lists of all users.
func TestLargeValuesNeedNoAnnotation(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	for name, change := range map[string]map[string]any{
		"text":      {"selector": large},
		"map":       {"selector": map[string]any{"a": large}},
		"number":    {"selector": []any{large}},
		"namespace": {"namespace": large},
		"list":      {"namespace": []any{"a", large}},
		"object":    {"namespace": map[string]any{"a": large}},
	} {
		u := rule(t, "v1", `{ruleType: secret, selector: {a: b}}`)
		maps.Copy(u.Object, change)
		if kept := conversion.Kept(convert(t, u, "v2").GetAnnotations()); kept != nil {
			t.Errorf("%s: the annotation keeps %v", name, kept)
		}
	}
}

// A wrong selector or name is reported with the fix, in both versions.
func TestInvalidSources(t *testing.T) {
	t.Parallel()
	expression := func(key, operator string, values ...string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: values},
		}}
	}
	many := metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := range 33 {
		many.MatchLabels[strings.Repeat("a", 60)+"/"+strings.Repeat("b", 30+i)] = strings.Repeat("c", 60)
	}
	var values []string
	for i := range 1000 {
		values = append(values, fmt.Sprintf("v%03d", i))
	}
	for name, tc := range map[string]struct {
		selector metav1.LabelSelector
		want     string
	}{
		"empty":     {metav1.LabelSelector{}, "would copy everything"},
		"key":       {expression("a b", "Exists"), "selector: "},
		"operator":  {expression("a", "Like", "b"), `"Like" is no operator: use In, NotIn, Exists, DoesNotExist, Gt or Lt`},
		"integer":   {expression("a", "Gt", "b"), "selector: "},
		"malformed": {expression("5", "Malformed"), "selector is 5: write a map of labels"},
		"text":      {expression(`"a in"`, "Malformed"), "selector: unable to parse"},
		"forged":    {expression(`"a"`, "Malformed"), "is no operator"},
		"many":      {many, "shorten it"},
		"long":      {expression("a", "In", values...), "shorten it"},
	} {
		if _, err := versions.ParseSelector(&tc.selector); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	labels := v1.Selector{Labels: map[string]string{}}
	for i := range 33 {
		labels.Labels[strconv.Itoa(i)] = ""
	}
	hub, err := versions.ToHub(&v1.CopyratorRule{Rule: v1.Rule{RuleType: "secret", Selector: labels}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := versions.ParseSelector(&hub.Spec.Source.Selector); err == nil || !strings.Contains(err.Error(), "shorten it") {
		t.Errorf("33 labels in v1: %v", err)
	}
	for name, want := range map[string]string{
		"Not-a-Name": "cannot exist", `namespace: {"a":1}`: `namespace is {"a":1}: write the name of a namespace`,
		"namespace: x": "cannot exist", "a.b": "cannot exist",
	} {
		if err := versions.ParseNamespaces([]string{"a", name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// ToHub restores what a client of v2 has written.
func TestToHub(t *testing.T) {
	t.Parallel()
	want := v2.Spec{Source: v2.Source{
		Kind: v2.KindSecret, Namespaces: []string{"b", "a"},
		Selector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "b", Operator: metav1.LabelSelectorOpIn, Values: []string{"y", "x"}},
			{Key: "a", Operator: metav1.LabelSelectorOpExists},
		}},
	}, OrphanPolicy: v1.OrphanKeep}
	fields, err := json.Marshal(map[string]any{"spec": want})
	if err != nil {
		t.Fatal(err)
	}
	data, err := convert(t, rule(t, "v2", string(fields)), "v1").MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	stored := &v1.CopyratorRule{}
	if err := json.Unmarshal(data, stored); err != nil {
		t.Fatal(err)
	}
	hub, err := versions.ToHub(stored)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, hub.Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
