package scenario_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit"
)

const copying = `
namespaces: [team-a, team-b]
setup:
- {apiVersion: v1, kind: Namespace, metadata: {name: '{namespace:team-a}', labels: {copy: 'yes'}}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: default, namespace: team-a}, data: {to: '{namespace:team-b}'}}
steps:
- name: letter
  apply:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: letter, labels: {a: b}}, data: {'{namespace}': 'in {namespace}'}}
  wait:
  - {field: 'data', exists: true}
  - {field: 'data.other', exists: false}
  - {kind: ConfigMap, namespace: team-a, name: default, field: data.to, value: '{namespace:team-b}'}
- name: elsewhere
  namespace: team-b
  apply:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: letter, labels: {a: b}}}
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: letter, namespace: '{namespace:team-a}', labels: {a: b}}}
  - {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: 'first-{namespace}'}, value: 1}
  wait:
  - {kind: ConfigMap, name: letter, exists: true}
  - {kind: ConfigMap, count: 1, labels: {a: b}}
  - {kind: ConfigMap, namespace: team-a, count: 1, labels: {a: b}}
  - {kind: ConfigMap, count: 0, labels: {a: c}}
- name: delete
  delete: {kind: PriorityClass, name: 'first-{namespace}'}
  wait: {exists: false}
- name: patch
  patch: {kind: ConfigMap, namespace: team-a, name: letter, merge: {data: {from: '{namespace}'}}}
  wait: {field: data.from, value: '{namespace}'}
never:
- {kind: ConfigMap, namespace: team-a, name: letter, field: data.from, value: '{namespace:team-b}'}
- {kind: ConfigMap, labels: {a: b}, count: 2}
`

func TestFurtherNamespaces(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	s := read(t, files{"s.yaml": copying})
	if err := s.Rehearse(t.Context(), k.Client, k.Namespace); err != nil {
		t.Fatal(err)
	}
	k.Eventually(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-team-a"}}, testkit.Gone())
	k = testkit.New(t)
	for _, name := range s.Namespaces {
		k.Apply(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-" + name}}) // deleted after the test
	}
	if err := s.SetUp(t.Context(), k.Client, k.Namespace); err != nil {
		t.Fatal(err)
	}
	for i := range s.Steps {
		if err := s.Steps[i].Do(t.Context(), k.Client, k.Namespace); err != nil {
			t.Fatal(err)
		}
	}
	letter := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "letter"}}
	if k.Get(letter); letter.Data[k.Namespace] != "in "+k.Namespace {
		t.Errorf("the letter has the data %v", letter.Data)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: k.Namespace + "-team-a"}}
	if k.Get(ns); ns.Labels["copy"] != "yes" {
		t.Errorf("the labels of a further namespace are %v", ns.Labels)
	}
}

func TestClusterScopedStepNeedsItsOwnName(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	s := read(t, files{"s.yaml": "steps:\n- name: one\n  apply:\n    apiVersion: scheduling.k8s.io/v1\n" +
		"    kind: PriorityClass\n    metadata:\n      name: high\n    value: 1\n"})
	err := s.Rehearse(t.Context(), k.Client, k.Namespace)
	const want = "s.yaml:7: PriorityClass high is cluster-scoped, and all runs would share it: call it high-{namespace}, " +
		"or move it to setup"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNever(t *testing.T) {
	t.Parallel()
	s := read(t, files{"s.yaml": copying})
	object := func(namespace, name, from string, labels map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"from": from},
			"metadata": map[string]any{"namespace": namespace, "name": name, "labels": labels},
		}}
	}
	labels := map[string]any{"a": "b"}
	for name, test := range map[string]struct {
		objects []*unstructured.Unstructured
		want    string
	}{
		"None": {nil, ""},
		"Value": {
			[]*unstructured.Unstructured{object("n-team-a", "letter", "n-team-b", nil)}, "ConfigMap team-a/letter is in a state",
		},
		"OtherValue":     {[]*unstructured.Unstructured{object("n-team-a", "letter", "n", nil)}, ""},
		"OtherNamespace": {[]*unstructured.Unstructured{object("n", "letter", "n-team-b", nil)}, ""},
		"Two": {
			[]*unstructured.Unstructured{object("n", "a", "", labels), object("n", "b", "", labels)},
			"there are 2 objects of kind ConfigMap with the labels a=b, which is never allowed",
		},
		"OneEach": {[]*unstructured.Unstructured{object("n", "a", "", labels), object("n-team-a", "b", "", labels)}, ""},
	} {
		var got strings.Builder
		for i := range s.Never {
			got.WriteString(s.Never[i].Violation("n", test.objects))
		}
		if !strings.HasPrefix(got.String(), test.want) || test.want == "" && got.Len() > 0 {
			t.Errorf("%s: %q, want %q", name, got.String(), test.want)
		}
	}
}
