package main

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Placeholders in an object, which are replaced by actions of Helm after the object is written.
const (
	releaseNamespace = "<release namespace>"
	watchedNamespace = "<watched namespace>"
	accountName      = "<account name>"
	chartLabels      = "~<chart labels>" // sorts last among the keys
	injection        = "~<injection>"    // of an object that has other annotations
	onlyInjection    = "~<only injection>"
)

// object writes an object as a template of Helm: in the release's namespace or in the current one of a loop, with the
// chart's labels and the ServiceAccount of the values.
func (c *config) object(from *unstructured.Unstructured) (string, error) {
	o := from.DeepCopy()
	switch o.GetNamespace() {
	case "":
	case c.Namespace:
		o.SetNamespace(releaseNamespace)
	default:
		o.SetNamespace(watchedNamespace)
	}
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	for label := range c.Selector {
		delete(labels, label) // part of the chart's labels
	}
	labels[chartLabels] = ""
	o.SetLabels(labels)
	c.setSubjects(o)
	called := services(o)
	for _, service := range called {
		service["namespace"] = releaseNamespace
	}
	if len(called) > 0 && len(o.GetAnnotations()) > 0 {
		setAnnotation(o, injection, "")
	} else if len(called) > 0 {
		setAnnotation(o, onlyInjection, "")
	}
	text, err := indented(o.Object, 0)
	if err != nil {
		return "", err
	}
	tail, err := c.optionalRules(from)
	if err != nil {
		return "", err
	}
	account := fmt.Sprintf(`{{ include "%s.serviceAccountName" $ }}`, c.Name)
	return strings.NewReplacer(
		"{{", `{{ "{{" }}`,
		"  annotations:\n    "+onlyInjection+`: ""`, c.injection("  annotations:\n    "),
		"    "+injection+`: ""`, c.injection("    "),
		releaseNamespace, "{{ $.Release.Namespace }}",
		watchedNamespace, "{{ . | quote }}",
		accountName, account,
		":"+c.Account+"'", ":"+account+"'", // the end of a user name in an admission policy
		chartLabels+`: ""`, fmt.Sprintf(`{{- include "%s.labels" $ | nindent 4 }}`, c.Name),
	).Replace(text) + tail, nil
}

// optionalRules writes the additional rules of a role for each option. Rules are the last field of a role.
func (c *config) optionalRules(role *unstructured.Unstructured) (string, error) {
	var all strings.Builder
	for _, option := range c.Options {
		rules, ok := option.rules[roleKey(role)]
		if !ok {
			continue
		}
		text, err := indented(rules, 0)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "\n{{- if $.Values.%s.enabled }}\n%s\n{{- end }}", option.Name, text)
	}
	return all.String(), nil
}

// setSubjects binds the release's ServiceAccount.
func (c *config) setSubjects(o *unstructured.Unstructured) {
	subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
	for _, s := range subjects {
		if subject, _ := s.(map[string]any); subject["name"] == c.Account && subject["namespace"] == c.Namespace {
			subject["name"], subject["namespace"] = accountName, releaseNamespace
		}
	}
	if len(subjects) > 0 {
		o.Object["subjects"] = subjects
	}
}

// definition writes a CustomResourceDefinition that outlives the release.
func (c *config) definition(from *unstructured.Unstructured) (string, error) {
	o := from.DeepCopy()
	setAnnotation(o, "helm.sh/resource-policy", "keep")
	return c.object(o)
}

func setAnnotation(o *unstructured.Unstructured, name, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = value
	o.SetAnnotations(annotations)
}

// injection writes the annotation by which cert-manager writes its authority into an object.
func (c *config) injection(before string) string {
	if c.Webhooks == nil {
		return ""
	}
	return "  {{- if $.Values.webhooks.certManager.enabled }}\n" + before + "cert-manager.io/inject-ca-from: " +
		"{{ $.Release.Namespace }}/" + c.Webhooks.Service.GetName() + "\n  {{- end }}"
}

// networkPolicy writes a policy with rules that apply only if metrics or webhooks are served.
func (c *config) networkPolicy(from *unstructured.Unstructured) (string, error) {
	o := from.DeepCopy()
	ingress, _, err := unstructured.NestedSlice(o.Object, "spec", "ingress")
	if err != nil {
		return "", fmt.Errorf("reading NetworkPolicy %s: %w", o.GetName(), err)
	}
	unstructured.RemoveNestedField(o.Object, "spec", "ingress")
	policy, err := c.object(o)
	if err != nil {
		return "", err
	}
	var forMetrics, forWebhooks []any
	for _, rule := range ingress {
		if c.Webhooks.isReached(rule) {
			forWebhooks = append(forWebhooks, rule)
		} else {
			forMetrics = append(forMetrics, rule)
		}
	}
	metrics := fmt.Sprintf("include %q .", c.Name+".metrics")
	if c.Webhooks == nil {
		rules, err := indented(map[string]any{"ingress": forMetrics}, 2)
		return fmt.Sprintf("%s\n  {{- if %s }}\n%s\n  {{- end }}", policy, metrics, rules), err
	}
	if len(forWebhooks) == 0 {
		return "", fmt.Errorf("NetworkPolicy %s blocks the API server: add a rule of its own for the port of Service %s",
			o.GetName(), c.Webhooks.Service.GetName())
	}
	const served = ".Values.webhooks.enabled"
	onMetrics, err := indented(forMetrics, 4)
	if err != nil {
		return "", err
	}
	onWebhooks, err := indented(forWebhooks, 4)
	if err != nil {
		return "", err
	}
	ingressTemplate := []string{
		policy, "  {{- if or " + served + " (" + metrics + ") }}", "  ingress:", "  {{- end }}",
		"  {{- if " + metrics + " }}", onMetrics, "  {{- end }}", "  {{- if " + served + " }}", onWebhooks, "  {{- end }}",
	}
	return strings.Join(ingressTemplate, "\n"), nil
}

// indented writes a value as YAML, indented by that number of spaces, without a trailing newline.
func indented(value any, spaces int) (string, error) {
	data, err := yaml.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("writing YAML: %w", err)
	}
	prefix := strings.Repeat(" ", spaces)
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = prefix + line
		}
	}
	return strings.Join(lines, "\n"), nil
}

// quote quotes an argument if YAML would not parse it as a string.
func quote(arg string) string {
	if strings.HasPrefix(arg, "--") && !strings.ContainsAny(arg, " #\"'{") {
		return arg
	}
	return strconv.Quote(arg)
}
