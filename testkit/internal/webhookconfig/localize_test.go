package webhookconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/testkit/internal/webhookconfig"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), u); err != nil {
		t.Fatal(err)
	}
	return u
}

const shipped = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: team, annotations: {cert-manager.io/inject-ca-from: a/b}}
webhooks:
- name: v.example.com
  clientConfig: {service: {name: team, namespace: system, path: /validate}}
  matchConditions: [{name: mine, expression: "true"}]
`

func TestLocalize(t *testing.T) {
	t.Parallel()
	to := webhookconfig.Local{
		URL: "https://127.0.0.1:1", CA: []byte("ca"), Suffix: "0a", Condition: webhookconfig.InRun("run"),
		Probe: "/probe", ProbeName: "p", Namespace: "run",
	}
	got, err := webhookconfig.Localize(parse(t, shipped), to)
	if err != nil {
		t.Fatal(err)
	}
	want := parse(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: team-0a}
webhooks:
- name: v.example.com
  clientConfig: {url: "https://127.0.0.1:1/validate", caBundle: Y2E=}
  matchConditions:
  - {name: mine, expression: "true"}
  - name: testkit-run
    expression: >-
      (has(request.namespace) && request.namespace.contains("run")) ||
      (has(request.name) && request.name.contains("run"))
- name: probe.testkit.homeostat.dev
  clientConfig: {url: "https://127.0.0.1:1/probe", caBundle: Y2E=}
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  matchConditions:
  - {name: testkit-run, expression: has(request.namespace) && request.namespace == "run" && request.name == "p"}
`)
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	to.Condition = ""
	if got, err = webhookconfig.Localize(parse(t, shipped), to); err != nil {
		t.Fatal(err)
	}
	webhooks, _, _ := unstructured.NestedSlice(got.Object, "webhooks")
	if first, _ := webhooks[0].(map[string]any); len(first["matchConditions"].([]any)) != 1 {
		t.Errorf("on a private control plane: %v", first["matchConditions"])
	}
}

func TestUnusableConfigurations(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		"Secret a is neither": "{apiVersion: v1, kind: Secret, metadata: {name: a}}",
		"team has no webhooks": "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, " +
			"metadata: {name: team}}",
		"webhook v.example.com: clientConfig.service.path is missing": strings.Replace(shipped, ", path: /validate", "", 1),
	} {
		_, err := webhookconfig.Localize(parse(t, text), webhookconfig.Local{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestLocalizeConversion(t *testing.T) {
	t.Parallel()
	want := map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"},
		"clientConfig":             map[string]any{"url": "https://127.0.0.1:1/convert", "caBundle": "Y2E="},
	}}
	for _, conversion := range []string{
		"", "conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: a}}}}, ",
	} {
		crd := parse(t, "{kind: CustomResourceDefinition, spec: {"+conversion+"versions: [{name: v1}, {name: v1beta1}]}}")
		got, err := webhookconfig.LocalizeConversion(crd, "https://127.0.0.1:1/convert", []byte("ca"))
		if err != nil {
			t.Fatal(err)
		}
		config, _, _ := unstructured.NestedMap(got.Object, "spec", "conversion")
		if diff := cmp.Diff(want, config); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	one := parse(t, "{kind: CustomResourceDefinition, spec: {versions: [{name: v1}]}}")
	if got, err := webhookconfig.LocalizeConversion(one, "", nil); err != nil || got != one {
		t.Errorf("with one version: %v, %v", got, err)
	}
}
