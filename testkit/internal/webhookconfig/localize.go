// Package webhookconfig changes the configuration of webhooks so that the API server of a test calls an address of this
// machine.
package webhookconfig

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Local is where the webhooks of a configuration are.
type Local struct {
	URL string // of the server, without a path
	CA  []byte // PEM

	Suffix    string // of the name of the object
	Condition string // a CEL expression for the requests of the run; "" for all requests

	// Probe is the path that the API server calls for a ConfigMap ProbeName in the namespace.
	Probe, ProbeName, Namespace string
}

// InRun returns a CEL expression for requests about the namespaces and the cluster-scoped objects of the run with this
// namespace: their names contain its name.
func InRun(namespace string) string {
	return fmt.Sprintf("(has(request.namespace) && request.namespace.contains(%q)) || "+
		"(has(request.name) && request.name.contains(%q))", namespace, namespace)
}

// IsUnserved reports whether the message of an error says that no operator served a webhook: its server answered 503.
func IsUnserved(message string) bool {
	return strings.Contains(message, "failed calling webhook") && strings.Contains(message, "unable to handle the request")
}

// IsConfiguration reports whether an object configures admission webhooks.
func IsConfiguration(object *unstructured.Unstructured) bool {
	return object.GetKind() == "ValidatingWebhookConfiguration" || object.GetKind() == "MutatingWebhookConfiguration"
}

// Localize returns a copy of an admission webhook configuration for one run.
func Localize(config *unstructured.Unstructured, to Local) (*unstructured.Unstructured, error) {
	if !IsConfiguration(config) {
		return nil, fmt.Errorf("%s %s is neither a ValidatingWebhookConfiguration nor a MutatingWebhookConfiguration",
			config.GetKind(), config.GetName())
	}
	local := config.DeepCopy()
	local.SetName(config.GetName() + "-" + to.Suffix)
	local.SetAnnotations(nil) // of cert-manager's injector
	webhooks, _, err := unstructured.NestedSlice(local.Object, "webhooks")
	if err != nil || len(webhooks) == 0 {
		return nil, fmt.Errorf("%s %s has no webhooks", config.GetKind(), config.GetName())
	}
	for i := range webhooks {
		webhook, _ := webhooks[i].(map[string]any)
		if err := localize(webhook, to); err != nil {
			return nil, fmt.Errorf("%s %s: webhook %v: %w", config.GetKind(), config.GetName(), webhook["name"], err)
		}
	}
	return local, unstructured.SetNestedSlice(local.Object, append(webhooks, probe(to)), "webhooks")
}

func localize(webhook map[string]any, to Local) error {
	client, err := clientConfig(webhook, to)
	if err != nil {
		return err
	}
	webhook["clientConfig"] = client
	if to.Condition != "" {
		conditions, _, err := unstructured.NestedSlice(webhook, "matchConditions")
		if err != nil {
			return err
		}
		webhook["matchConditions"] = append(conditions, condition(to.Condition))
	}
	return nil
}

// clientConfig returns the configuration with the path of the original one.
func clientConfig(of map[string]any, to Local) (map[string]any, error) {
	path, found, err := unstructured.NestedString(of, "clientConfig", "service", "path")
	if err != nil || !found {
		return nil, errors.New("clientConfig.service.path is missing")
	}
	return map[string]any{"url": to.URL + path, "caBundle": base64.StdEncoding.EncodeToString(to.CA)}, nil
}

func condition(expression string) map[string]any {
	return map[string]any{"name": "testkit-run", "expression": expression}
}

// probe returns a webhook that shows by a call that the API server uses the configuration.
func probe(to Local) map[string]any {
	return map[string]any{
		"name":                    "probe.testkit.homeostat.dev",
		"clientConfig":            map[string]any{"url": to.URL + to.Probe, "caBundle": base64.StdEncoding.EncodeToString(to.CA)},
		"admissionReviewVersions": []any{"v1"},
		"sideEffects":             "None",
		"failurePolicy":           "Ignore",
		"rules": []any{map[string]any{
			"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"configmaps"},
		}},
		"matchConditions": []any{condition(fmt.Sprintf("has(request.namespace) && request.namespace == %q && request.name == %q",
			to.Namespace, to.ProbeName))},
	}
}

// LocalizeConversion returns a copy of a CustomResourceDefinition whose conversion webhook is at url. A definition with one
// version needs none. controller-gen writes no conversion, so that one with several versions may lack it.
func LocalizeConversion(crd *unstructured.Unstructured, url string, ca []byte) (*unstructured.Unstructured, error) {
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil || len(versions) < 2 {
		return crd, err
	}
	local := crd.DeepCopy()
	return local, unstructured.SetNestedMap(local.Object, map[string]any{
		"strategy": "Webhook",
		"webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"},
			"clientConfig":             map[string]any{"url": url, "caBundle": base64.StdEncoding.EncodeToString(ca)},
		},
	}, "spec", "conversion")
}
