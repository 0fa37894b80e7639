package scenario_test

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homeostat-dev/homeostat/testkit/internal/scenario"
)

// sentences returns an error's lines, independent of the folder.
func sentences(err error, dir string) []string {
	if err == nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""), "\n")
}

// step appends a step's fields to its name.
func step(text string) string {
	return "steps:\n- name: one\n" + text
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
	tests := map[string]struct {
		reason string
		text   string // of s.yaml
		files  files
		want   []string
	}{
		"Empty": {
			reason: "the file was not saved",
			text:   "# nothing\n",
			want:   []string{"s.yaml:1: the scenario is empty: add steps, each with a name and one of apply, patch and delete"},
		},
		"List": {
			reason: "the file has the steps only",
			text:   "- name: one\n",
			want: []string{"s.yaml:1: the scenario is a list, and has to be a mapping: " +
				"its fields are namespaces, crds, setup, steps and never"},
		},
		"NeverInTwoVersions": {
			reason: "a kind has a second version",
			text: nothing + "never:\n- {apiVersion: example.com/v1, kind: Widget, name: w, exists: true}\n" +
				"- {apiVersion: example.com/v2, kind: Widget, name: w, exists: true}\n",
			want: []string{"s.yaml:6: never has states of Widget in v1 and in v2, and each run records one version: " +
				"write all of them in the same version"},
		},
		"TwoDocuments": {
			reason: "one file is one scenario",
			text:   nothing + "---\n" + nothing,
			want:   []string{"s.yaml:5: the scenario has a second document: remove the --- in front of it"},
		},
		"NotYAML": {
			reason: "the parser reports the line before the one in which the list begins",
			text:   "steps:\n- name: one\n  apply: [a\n  wait: {}\n",
			want: []string{"s.yaml:2: this is not YAML: did not find expected ',' or ']': " +
				"check indentation, quotes and tabs around this line"},
		},
		"Tab": {
			reason: "editors insert it",
			text:   "steps:\n- name: one\n\tapply: a\n",
			want: []string{"s.yaml:2: this is not YAML: found a tab character that violates indentation: " +
				"check indentation, quotes and tabs around this line"},
		},
		"UnknownField": {
			reason: "a typing error must not be ignored silently",
			text:   "stpes: []\nsteps:\n- name: one\n  aplly: a\n  delete: {kind: Pod, name: p, nmespace: x}\n",
			want: []string{
				`s.yaml:1: unknown field "stpes" in the scenario: its fields are namespaces, crds, setup, steps and never`,
			},
		},
		"UnknownFieldOfAStep": {
			reason: "each one is reported",
			text:   step("  aplly: a\n- name: two\n  delete: {kind: Pod, name: p, nmespace: x}\n"),
			want: []string{
				`s.yaml:3: unknown field "aplly" in steps[0]: its fields are name, namespace, apply, patch, delete and wait`,
				`s.yaml:5: unknown field "nmespace" in delete: its fields are apiVersion, kind, namespace and name`,
			},
		},
		"Never": {
			reason: "it must not be considered checked",
			text: nothing + "never:\n- two primaries\n- {kind: Pod, name: p, exists: false}\n- {kind: Pod, labels: {a: b}}\n" +
				"- {kind: Pod, count: 2, labels: {a: 1}}\n- {count: 2}\n",
			want: []string{
				"s.yaml:5: never is a text, and has to be a mapping: its fields are apiVersion, kind, namespace, name, " +
					"condition, reason, field, value, exists, count and labels",
				"s.yaml:6: never has exists: false, which is so before the first step: write exists: true, or a field",
				"s.yaml:7: never has no name: add it, so that one object is meant",
				"s.yaml:7: never has a label and no count: add the count, for example count: 1",
				"s.yaml:7: never says nothing about the object: add one of condition, field, exists and count",
				"s.yaml:8: label a is a number, and has to be a text: put it in quotes",
				"s.yaml:9: never has no kind: add it, so that it is known what to count",
			},
		},
		"Neverish": {
			reason: "the dash is missing",
			text:   nothing + "never: {kind: Pod, name: p, exists: true}\n",
			want:   []string{"s.yaml:4: never is a mapping, and has to be a list: put a - in front of each state"},
		},
		"FurtherNamespaces": {
			reason: "they are called after the namespace of the run",
			text: "namespaces: [team-a, Team_B, a-name-that-is-long, team-a, 1]\nsteps:\n- name: one\n  namespace: team-b\n" +
				"  apply: {apiVersion: v1, kind: Pod, metadata: {name: 'p-{namespace:team-c}', namespace: team-a}}\n" +
				"  wait: {namespace: team-d, exists: true}\n",
			want: []string{
				"s.yaml:1: namespace Team_B: its name begins with that of the run: write at most 13 lower-case letters, " +
					"digits and hyphens",
				"s.yaml:1: namespace a-name-that-is-long: its name begins with that of the run: write at most 13 lower-case " +
					"letters, digits and hyphens",
				"s.yaml:1: namespace team-a is there twice: remove one of the two",
				"s.yaml:1: namespaces[4] is a number, and has to be a text: put it in quotes",
				"s.yaml:5: the scenario has no namespace team-c: write namespaces: [team-c] into it, or correct {namespace:team-c}",
				"s.yaml:4: the scenario has no namespace team-b: write namespaces: [team-b] into it, or correct the name",
				"s.yaml:6: the scenario has no namespace team-d: write namespaces: [team-d] into it, or correct the name",
			},
		},
		"FurtherNamespace": {
			reason: "several are possible",
			text:   "namespaces: team-a\n" + nothing,
			want:   []string{"s.yaml:1: namespaces is a text, and has to be a list: write for example namespaces: [team-a]"},
		},
		"Expectations": {
			reason: "each field belongs to one expectation",
			text: "steps:\n- name: a\n  apply: p.yaml\n  wait:\n  - {reason: R}\n  - {condition: Ready, reason: 1}\n" +
				"  - {field: a, value: 1, exists: true}\n  - {kind: Pod, count: x}\n  - {kind: Pod, name: p, count: 1}\n" +
				"  - {kind: Pod, count: 1, labels: a=b}\n",
			files: files{"p.yaml": pod},
			want: []string{
				"s.yaml:5: wait has a reason and no condition: add the condition, for example condition: Ready=False",
				"s.yaml:5: wait says nothing about the object: add one of condition, field, exists and count",
				"s.yaml:6: reason is a number, and has to be a text: put it in quotes",
				"s.yaml:7: wait has value and exists: remove one of the two",
				"s.yaml:8: count is x, and has to be a number of objects: write it like 3",
				"s.yaml:9: wait has a count and a name: remove the name, or write exists instead of count",
				"s.yaml:10: labels is a text, and has to be a mapping: write it like labels: {app: web}",
			},
		},
		"Twice": {
			reason: "YAML forbids it, and one of the two would have no effect",
			text:   step("  apply: a.yaml\n  apply: b.yaml\n"),
			want:   []string{"s.yaml:4: apply is there twice, first in line 3: remove one of the two"},
		},
		"NoSteps": {
			reason: "nothing would happen",
			text:   "setup: []\n",
			want: []string{
				"s.yaml:1: setup is a list, and has to be a file name, an object or a list of these: " +
					"write one, or remove the field",
				"s.yaml:1: the scenario has no steps: add at least one under steps",
			},
		},
		"EmptySteps": {
			reason: "nothing would happen",
			text:   "steps: []\n", want: []string{"s.yaml:1: the scenario has no steps: add at least one under steps"},
		},
		"StepsAreAMapping": {
			reason: "the dash is missing",
			text:   "steps:\n  name: one\n",
			want:   []string{"s.yaml:2: steps is a mapping, and has to be a list: put a - in front of each step"},
		},
		"StepIsAText": {
			reason: "it looks like a shell command",
			text:   "steps:\n- kubectl apply\n",
			want: []string{"s.yaml:2: steps[0] is a text, and has to be a mapping: " +
				"its fields are name, namespace, apply, patch, delete and wait"},
		},
		"Names": {
			reason: "reports identify steps by their names",
			text: "steps:\n- delete: {kind: Pod, name: p}\n- name: 1\n  delete: {kind: Pod, name: p}\n" +
				"- name: \"\"\n  delete: {kind: Pod, name: p}\n- name: a\n  delete: {kind: Pod, name: p}\n" +
				"- name: a\n  delete: {kind: Pod, name: p}\n- name: |\n    two\n    lines\n  delete: {kind: Pod, name: p}\n" +
				"- name: yes\n  delete: {kind: Pod, name: p}\n",
			want: []string{
				"s.yaml:2: steps[0] has no name: add one, for example name: create",
				"s.yaml:3: the name of steps[1] is a number, and has to be a text: put it in quotes",
				"s.yaml:5: the name of steps[2] is empty, and has to be a text: write one",
				"s.yaml:9: two steps are called a, the first in line 7: rename one of the two",
				"s.yaml:11: the name of steps[5] has several lines: make it one",
				"s.yaml:15: the name of steps[6] is true or false, and has to be a text: put it in quotes",
			},
		},
		"Actions": {
			reason: "a step is one action, so that a fault can be injected before and after it",
			text: "steps:\n- name: none\n- name: waits\n  wait: {kind: Pod, name: p, exists: true}\n" +
				"- name: two\n  apply: p.yaml\n  delete: {kind: Pod, name: p}\n",
			files: files{"p.yaml": pod},
			want: []string{
				"s.yaml:2: step none does nothing: add one of apply, patch and delete",
				"s.yaml:3: step waits only waits: add one of apply, patch and delete, or move wait to the step before",
				"s.yaml:5: step two has apply and delete: make a step of each",
			},
		},
		"Files": {
			reason: "paths depend on the working directory",
			text: "crds: [none.yaml, 7]\nsetup: empty.yaml\nsteps:\n- name: one\n  apply:\n  - things\n  - [a.yaml]\n" +
				"- name: two\n  apply: true\n- name: three\n  apply:\n",
			files: files{"empty.yaml": "---\n# nothing\n---\n", "things/README.md": "", "things/sub/a.yaml": pod},
			want: []string{
				"s.yaml:1: there is no file none.yaml: correct the path, which is relative to the scenario's folder",
				"s.yaml:1: crds is a number, and has to be a file name, an object or a list of these: " +
					"write one, or remove the field",
				"s.yaml:2: empty.yaml holds no object: write one there, or name another file",
				"s.yaml:6: the folder things has no .yaml, .yml or .json file: name another one",
				"s.yaml:7: a list in a list names no object: write a file name or an object",
				"s.yaml:9: apply is true or false, and has to be a file name, an object or a list of these: " +
					"write one, or remove the field",
				"s.yaml:11: apply is empty, and has to be a file name, an object or a list of these: " +
					"write one, or remove the field",
			},
		},
		"Objects": {
			reason: "the file of the object is the one to correct",
			text:   step("  apply: [a.yaml, b.yaml, {kind: Pod, metadata: {name: p}}]\n"),
			files: files{
				"a.yaml": "metadata: {name: p}\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  generateName: p-\n---\n- a list\n",
				"b.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  a: [1, {2: x}\n",
			},
			want: []string{
				"a.yaml:1: the object has no kind: add one, for example kind: ConfigMap",
				"a.yaml:3: the Pod has no name: add metadata.name, the same in each run",
				"a.yaml:8: this is a list, and has to be an object: give it apiVersion, kind and metadata",
				"b.yaml:4: this is not YAML: did not find expected ',' or ']': " +
					"check indentation, quotes and tabs around this line",
				"s.yaml:3: the Pod has no apiVersion: add one, for example apiVersion: v1",
			},
		},
		"Values": {
			reason: "the API server uses JSON",
			text: step("  apply:\n  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: .nan}}\n" +
				"  - {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {<<: 1}}\n"),
			want: []string{
				"s.yaml:4: this cannot be expressed in JSON (json: unsupported value: NaN): give another value",
				"s.yaml:5: this is not YAML: map merge requires map or sequence of maps as the value: " +
					"check indentation, quotes and tabs around this line",
			},
		},
		"Keys": {
			reason: "the same applies to keys",
			text:   step("  apply: a.yaml\n"),
			files:  files{"a.yaml": "apiVersion: v1\nkind: Pod\n? [a, b]\n: c\n"},
			want:   []string{"a.yaml:3: a key is a list, and has to be a text: put what is meant in quotes"},
		},
		"Definitions": {
			reason: "they are cluster-scoped and take time until they work",
			text:   "crds: [p.yaml, bad.yaml]\n" + step("  apply: crd.yaml\n"),
			files: files{
				"p.yaml": pod, "crd.yaml": widgetCRD,
				"bad.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\n",
			},
			want: []string{
				"p.yaml:1: Pod p is no CustomResourceDefinition: move it from crds to setup",
				"bad.yaml:1: the CustomResourceDefinition x lacks spec.group, spec.names.kind or a version: complete it",
				"crd.yaml:2: the CustomResourceDefinition widgets.example.com is installed too late here: move it to crds",
			},
		},
		"Namespaces": {
			reason: "two objects might get the same name",
			text:   step("  apply: [a.yaml, b.yaml, c.yaml]\n"),
			files: files{
				"a.yaml": pod, "b.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: a}\n",
				"c.yaml": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: b\n",
			},
			want: []string{"c.yaml:5: the Pod is in namespace b, and another object is in a: " +
				"write namespaces: [b] into the scenario, or give all objects the same or none"},
		},
		"Targets": {
			reason: "the step has to be about one object",
			text: "crds: [crd.yaml]\nsteps:\n- name: a\n  delete: {}\n- name: b\n  delete: {kind: Gadget, name: 7}\n" +
				"- name: c\n  delete: {apiVersion: a/b/c, kind: Gadget, name: x}\n- name: d\n  delete: Pod/p\n" +
				"- name: e\n  apply: {apiVersion: other/v1, kind: Widget, metadata: {name: w}}\n" +
				"- name: f\n  delete: {kind: Widget, name: w}\n- name: g\n  delete: {kind: '', name: }\n",
			files: files{"crd.yaml": widgetCRD},
			want: []string{
				"s.yaml:3: delete has no kind: add it, so that one object is meant",
				"s.yaml:3: delete has no name: add it, so that one object is meant",
				"s.yaml:6: name is a number, and has to be a text: put it in quotes",
				"s.yaml:6: kind Gadget is neither one of the scenario's crds and objects, nor one of Kubernetes itself: " +
					"correct it, or add apiVersion",
				"s.yaml:8: apiVersion a/b/c has more than one slash: write it like apps/v1",
				"s.yaml:10: delete is a text, and has to be a mapping: its fields are apiVersion, kind, namespace and name",
				"s.yaml:14: kind Widget is both in example.com/v1 and in other/v1: add apiVersion",
				"s.yaml:16: name is empty, and has to be a text: write one",
				"s.yaml:16: kind is empty, and has to be a text: write one",
			},
		},
		"Patches": {
			reason: "a patch has to change something",
			text: "steps:\n- name: a\n  patch: {kind: Pod, name: p}\n- name: b\n  patch: {kind: Pod, name: p, merge: {}}\n" +
				"- name: c\n  patch: {kind: Pod, name: p, merge: 3}\n" +
				"- name: d\n  patch: {kind: Pod, name: p, subresource: exec, merge: {spec: {a: .inf}}}\n" +
				"- name: e\n  patch: [a]\n",
			want: []string{
				"s.yaml:3: patch has no merge: add what is to change, for example merge: {spec: {replicas: 3}}",
				"s.yaml:5: merge is empty, and has to say what is to change: write for example merge: {spec: {replicas: 3}}",
				"s.yaml:7: merge is a number, and has to say what is to change: write for example merge: {spec: {replicas: 3}}",
				"s.yaml:9: subresource is exec, and can only be status: correct it, or leave it out",
				"s.yaml:9: this cannot be expressed in JSON (json: unsupported value: +Inf): give another value",
				"s.yaml:11: patch is a list, and has to be a mapping: " +
					"its fields are apiVersion, kind, namespace, name, merge and subresource",
			},
		},
		"Waits": {
			reason: "each belongs to another object",
			text: "steps:\n- name: a\n  apply: [p.yaml, q.yaml]\n  wait:\n  - {condition: Ready}\n  - {kind: Pod, name: p}\n" +
				"  - {kind: Pod, name: p, condition: Ready, exists: true}\n  - {kind: Pod, name: p, condition: Ready=maybe}\n" +
				"  - {kind: Pod, name: p, value: 1}\n  - {kind: Pod, name: p, field: 'a[', value: 1}\n" +
				"  - {kind: Pod, name: p, exists: 1}\n  - {kind: Pod, name: p, exists: true, timeout: 30}\n" +
				"  - {kind: Pod, name: p, exists: true, timeout: -1s}\n  - {kind: Pod, name: p, field: a, value: .nan}\n" +
				"  - {kind: Pod, name: p, field: 1}\n  - Ready\n",
			files: files{"p.yaml": pod, "q.yaml": strings.Replace(pod, "name: p", "name: q", 1)},
			want: []string{
				"s.yaml:5: wait has no kind: add it, so that one object is meant",
				"s.yaml:5: wait has no name: add it, so that one object is meant",
				"s.yaml:6: wait says nothing about the object: add one of condition, field, exists and count",
				"s.yaml:7: wait has condition and exists: write a list with a wait for each",
				`s.yaml:8: condition Ready has the status "maybe", which no condition can have: write True, False or Unknown`,
				"s.yaml:9: wait has a value and no field: add the field, for example field: status.phase",
				"s.yaml:9: wait says nothing about the object: add one of condition, field, exists and count",
				"s.yaml:10: field a[ is no path (unterminated array): write it like status.replicas or status.list[0].name",
				"s.yaml:11: exists is a number, and has to be true or false: write one of the two",
				"s.yaml:12: timeout is 30, and has to be a positive duration: write it like 30s or 2m",
				"s.yaml:13: timeout is -1s, and has to be a positive duration: write it like 30s or 2m",
				"s.yaml:14: this cannot be expressed in JSON (json: unsupported value: NaN): give another value",
				"s.yaml:15: field is a number, and has to be a text: put it in quotes",
				"s.yaml:16: wait is a text, and has to be a mapping: its fields are apiVersion, kind, namespace, name, " +
					"condition, reason, field, value, exists, count, labels and timeout",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := files{"s.yaml": tt.text}
			maps.Copy(all, tt.files)
			dir := all.write(t)
			s, err := scenario.Read(filepath.Join(dir, "s.yaml"))
			if diff := cmp.Diff(tt.want, sentences(err, dir)); diff != "" || s != nil {
				t.Errorf("(-want +got), because %s:\n%s", tt.reason, diff)
			}
			var mistake *scenario.Error
			if !errors.As(err, &mistake) || mistake.Position.Line == 0 {
				t.Errorf("%v has no position", err)
			}
		})
	}
}

// TestMistakeInARelativePath checks that positions in relatively named files stay relative, so that terminals link
// them.
func TestMistakeInARelativePath(t *testing.T) {
	dir := files{"x/s.yaml": step("  apply: ../a.yaml\n"), "a.yaml": "kind: Pod\n"}.write(t)
	t.Chdir(dir)
	_, err := scenario.Read("x/s.yaml")
	want := []string{"a.yaml:1: the Pod has no apiVersion: add one, for example apiVersion: v1"}
	if diff := cmp.Diff(want, sentences(err, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
