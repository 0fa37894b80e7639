package scenario_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
)

// files holds the contents of a folder, by name.
type files map[string]string

func (f files) write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range f {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The output of helm template has the CustomResourceDefinition among other objects.
func TestReadCRDsBesideOthers(t *testing.T) {
	t.Parallel()
	chart := files{"chart.yaml": inline + "\n---" + widgetCRD + "---\n" + inline + "\n"}.write(t)
	crds, err := scenario.ReadCRDs(chart)
	if err != nil {
		t.Fatal(err)
	}
	if len(crds) != 1 || crds[0].GetName() != "widgets.example.com" {
		t.Errorf("read %v, want the definition of widgets", crds)
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	target := scenario.Target{Kind: schema.GroupVersionKind{Kind: "ConfigMap"}, Name: "roots"}
	if got := target.String(); got != "ConfigMap roots" {
		t.Errorf("in the first namespace: %q", got)
	}
	target.Namespace = "team-a"
	if got := target.String(); got != "ConfigMap team-a/roots" {
		t.Errorf("in a further namespace: %q", got)
	}
}

const (
	widgetCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - {name: v1alpha1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`
	widget   = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 1}\n"
	inline   = "{apiVersion: v1, kind: ConfigMap, metadata: {name: inline}, data: {k: v}}"
	nothing  = "steps:\n- name: a\n  delete: {kind: Pod, name: p}\n"
	everyone = `# a comment
crds: [crd.yaml]
setup:
- setup
- ` + inline + `
steps:
- name: create
  apply: sample.yaml
  wait: {condition: Ready}
- name: scale up
  patch: {kind: Widget, name: w, merge: {spec: {size: 3, old: null}}}
  wait:
  - {kind: Deployment, name: w, field: "status.replicas", value: 3, timeout: 1m}
  - {condition: Ready=False}
- name: pretend
  patch: {apiVersion: v1, kind: Pod, name: p, subresource: status, merge: {status: {phase: Failed}}}
- name: both
  apply: [sample.yaml, ` + inline + `]
  wait: {kind: HorizontalPodAutoscaler, name: h, exists: true}
- name: delete
  delete: {kind: Widget, name: w}
  wait: {exists: false}
`
)

func object(kind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind(kind)
	u.SetName(name)
	return u
}

func TestRead(t *testing.T) {
	t.Parallel()
	dir := files{
		"s.yaml": everyone, "crd.yaml": widgetCRD, "sample.yaml": "---\n# first\n---\n" + widget,
		"setup/b.json": `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b", "namespace": "elsewhere"}}`,
		"setup/a.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\n" +
			"apiVersion: v1\nkind: Service\nmetadata: {name: s}\n",
		"setup/kustomization.yaml": "resources: [a.yaml]\n", "setup/README.md": "no manifest", "setup/sub/c.yaml": "no: object\n",
	}.write(t)
	file := filepath.Join(dir, "s.yaml")
	got, err := scenario.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	configMap := object("ConfigMap", "inline")
	configMap.Object["data"] = map[string]any{"k": "v"}
	sample := object("Widget", "w")
	sample.SetAPIVersion("example.com/v1")
	sample.Object["spec"] = map[string]any{"size": int64(1)}
	secret := object("Secret", "b")
	w := scenario.Target{Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, Name: "w"}
	at := func(line int) scenario.Position { return scenario.Position{File: file, Line: line} }
	want := &scenario.Scenario{
		File:  file,
		Setup: []*unstructured.Unstructured{object("Secret", "a"), object("Service", "s"), secret, configMap},
		Steps: []scenario.Step{
			{
				Name: "create", Position: at(7), Apply: []*unstructured.Unstructured{sample},
				Waits: []scenario.Wait{
					{Target: w, Position: at(9), Condition: "Ready", Status: metav1.ConditionTrue, Timeout: 30 * time.Second},
				},
			},
			{
				Name: "scale up", Position: at(10),
				Patch: &scenario.Patch{
					Target: w, Merge: map[string]any{"spec": map[string]any{"size": int64(3), "old": nil}},
				},
				Waits: []scenario.Wait{
					{
						Target: scenario.Target{
							Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Name: "w",
						},
						Position: at(13), Field: "status.replicas", Value: int64(3), HasValue: true, Timeout: time.Minute,
					},
					{Target: w, Position: at(14), Condition: "Ready", Status: metav1.ConditionFalse, Timeout: 30 * time.Second},
				},
			},
			{
				Name: "pretend", Position: at(15),
				Patch: &scenario.Patch{
					Target:      scenario.Target{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Name: "p"},
					Subresource: "status", Merge: map[string]any{"status": map[string]any{"phase": "Failed"}},
				},
			},
			{
				Name: "both", Position: at(17), Apply: []*unstructured.Unstructured{sample, configMap},
				Waits: []scenario.Wait{{
					Target: scenario.Target{
						Kind: schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}, Name: "h",
					},
					Position: at(19), Exists: new(true), Timeout: 30 * time.Second,
				}},
			},
			{
				Name: "delete", Position: at(20), Delete: &w,
				Waits: []scenario.Wait{{Target: w, Position: at(22), Exists: new(false), Timeout: 30 * time.Second}},
			},
		},
	}
	if len(got.CRDs) != 1 || got.CRDs[0].GetName() != "widgets.example.com" {
		t.Errorf("crds: %v", got.CRDs)
	}
	got.CRDs = nil
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(scenario.Scenario{}, scenario.Wait{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReadOfNothing(t *testing.T) {
	t.Parallel()
	_, err := scenario.Read(filepath.Join(t.TempDir(), "none.yaml"))
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "reading the scenario: ") {
		t.Errorf("%v", err)
	}
}

// TestValuesAreThoseOfKubectl checks that a value has the meaning that it has in kubectl.
func TestValuesAreThoseOfKubectl(t *testing.T) {
	t.Parallel()
	const values = `
apiVersion: v1
kind: ConfigMap
metadata: {name: values}
bools: [yes, No, ON, off, y, n, true, False, "yes", 'on']
ints: [1, -1, 0777, 0x1F, 1_000, 0b101, 9223372036854775807]
floats: [1.5, 1e3, .5, 1.0]
nulls: [~, null, ""]
texts: [2001-01-01, 12:30:45, 2001-12-14T21:59:43Z, "1", '~', 1.2.3, 0o17x, =, <]
blocks:
- |
  two
  lines
- >-
  one
  line
keys: {1: one, true: yes, 1.5: half}
defaults: &defaults {a: 1, b: 2}
merged: {<<: *defaults, b: 3}
alias: *defaults
`
	dir := files{"s.yaml": "setup: values.yaml\n" + nothing, "values.yaml": values}.write(t)
	s, err := scenario.Read(filepath.Join(dir, "s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.YAMLToJSON([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := utiljson.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, s.Setup[0].Object); diff != "" {
		t.Errorf("(-kubectl +scenario):\n%s", diff)
	}
}
