package v1_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, testkit.Env{CRDs: "../../config/crd", AddToScheme: v1.AddToScheme})
}

func TestInvalidObjectIsRejected(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for why, tc := range map[string]struct{ rule, field, want string }{
		"no type":      {`{selector: {a: b}}`, "ruleType", "Required value"},
		"unknown type": {`{ruleType: pod, selector: {a: b}}`, "ruleType", `supported values: "configmap", "secret"`},
		"no selector":  {`{ruleType: secret}`, "selector", "Required value"},
		"pattern": {
			`{ruleType: secret, selector: {a: b}, targetNamespaces: ["a b"]}`, "targetNamespaces[0]", "should match",
		},
		"name":           {`{ruleType: secret, selector: {a: b}, namespaces: ["-"]}`, "namespaces[0]", "should match"},
		"twice the same": {`{ruleType: secret, selector: {a: b}, namespaces: [a, a]}`, "namespaces[1]", "Duplicate value"},
		"unknown policy": {
			`{ruleType: secret, selector: {a: b}, conflictPolicy: Force}`, "conflictPolicy", `"Skip", "Adopt", "Overwrite"`,
		},
		"unknown orphans": {`{ruleType: secret, selector: {a: b}, orphanPolicy: Leave}`, "orphanPolicy", `"Delete", "Keep"`},
		"empty key": {
			`{ruleType: secret, selector: {a: b}, dataKeys: {include: [""]}}`, "dataKeys.include[0]", "at least 1 chars",
		},
		"text for a boolean": {`{ruleType: secret, selector: {a: b}, suspend: "yes"}`, "suspend", "must be of type boolean"},
	} {
		got := k.Refused(object(t, "bad", tc.rule))
		if !strings.Contains(got, tc.field+": ") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: the message is\n%s\nwant %s and\n%s", why, got, tc.field, tc.want)
		}
	}
}

func TestRuleTypeIsImmutable(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Apply(object(t, "a", `{ruleType: secret, selector: {a: b}}`))
	rule := &v1.CopyratorRule{}
	rule.Name = "a"
	k.Get(rule)
	rule.RuleType = "configmap"
	err := k.Client.Update(t.Context(), rule)
	if err == nil || !strings.Contains(err.Error(), "ruleType cannot be changed: delete this rule and make another one") {
		t.Errorf("the message is %v", err)
	}
}

// Values of the old forms, and invalid ones, are returned as they were stored.
func TestOriginalFormIsKept(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for name, tc := range map[string]struct {
		rule      string
		selector  v1.Selector
		namespace v1.Names
	}{
		"map":    {`{selector: {a: b}}`, v1.Selector{Labels: map[string]string{"a": "b"}}, v1.Names{}},
		"text":   {`{selector: "a in (b)"}`, v1.Selector{Text: "a in (b)"}, v1.Names{}},
		"one":    {`{selector: x, namespace: one}`, v1.Selector{Text: "x"}, v1.Names{List: []string{"one"}, Single: true}},
		"list":   {`{selector: x, namespace: [one, two]}`, v1.Selector{Text: "x"}, v1.Names{List: []string{"one", "two"}}},
		"number": {`{selector: 5, namespace: 5}`, v1.Selector{Malformed: []byte("5")}, v1.Names{Malformed: []byte("5")}},
		"list-text": {
			`{selector: [a], namespace: {a: b}}`,
			v1.Selector{Malformed: []byte(`["a"]`)},
			v1.Names{Malformed: []byte(`{"a":"b"}`)},
		},
	} {
		o := object(t, name, tc.rule)
		o.Object["ruleType"] = "configmap"
		k.Apply(o)
		rule := &v1.CopyratorRule{}
		rule.Name = name
		k.Get(rule)
		if diff := cmp.Diff(tc.selector, rule.Selector); diff != "" {
			t.Errorf("%s: selector (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.namespace, rule.SourceNamespace); diff != "" {
			t.Errorf("%s: namespace (-want +got):\n%s", name, diff)
		}
		before := o.DeepCopy()
		rule.Annotations = map[string]string{"touched": "yes"}
		if err := k.Client.Update(t.Context(), rule); err != nil {
			t.Fatal(err)
		}
		if err := k.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"selector", "namespace"} {
			if diff := cmp.Diff(before.Object[field], o.Object[field]); diff != "" {
				t.Errorf("%s: an update from Go changes %s (-want +got):\n%s", name, field, diff)
			}
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	k.Apply(object(t, "a", "{ruleType: configmap, selector: {a: b}}"))
	got := &v1.CopyratorRule{}
	got.Name = "a"
	k.Get(got)
	want := v1.Rule{
		RuleType: "configmap", Selector: v1.Selector{Labels: map[string]string{"a": "b"}},
		ConflictPolicy: v1.ConflictSkip, OrphanPolicy: v1.OrphanDelete, ImmutableStrategy: v1.ImmutableRecreate,
		CopyLabels: v1.Labels{Strip: []string{
			"argocd.argoproj.io/*", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/*",
			"kustomize.toolkit.fluxcd.io/*",
		}},
	}
	if diff := cmp.Diff(want, got.Rule); diff != "" {
		t.Errorf("the defaults differ from the documented ones (-want +got):\n%s", diff)
	}
}

func TestSamplesAreAccepted(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	for _, name := range []string{"example", "full"} {
		raw, err := os.ReadFile("../../config/samples/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		sample := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &sample.Object); err != nil {
			t.Fatal(err)
		}
		sample.SetNamespace("")
		k.Apply(sample)
	}
}

// object returns a rule in YAML as an object.
func object(t *testing.T, name, rule string) *unstructured.Unstructured {
	t.Helper()
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(rule), &fields); err != nil {
		t.Fatal(err)
	}
	fields["apiVersion"], fields["kind"] = v1.GroupVersion.String(), "CopyratorRule"
	fields["metadata"] = map[string]any{"name": name}
	return &unstructured.Unstructured{Object: fields}
}
