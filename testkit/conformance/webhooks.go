package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// source returns the arguments of kubectl that name the overlay. No pod serves the webhooks of an overlay, so their
// configurations get a condition by which the API server never calls them, and CustomResourceDefinitions no conversion: the
// API server then changes only the version of an object.
func (k *kubectl) source(m *manifests) ([]string, error) {
	objects, found := make([]any, len(m.objects)), false
	for i := range m.objects {
		o := m.objects[i].DeepCopy()
		objects[i] = o.Object
		if strategy, _, _ := unstructured.NestedString(o.Object, "spec", "conversion", "strategy"); strategy == "Webhook" {
			found = true
			unstructured.RemoveNestedField(o.Object, "spec", "conversion")
		}
		if !isWebhookConfiguration(o) {
			continue
		}
		found = true
		hooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", describe(o), err)
		}
		for _, hook := range hooks {
			if fields, ok := hook.(map[string]any); ok {
				fields["matchConditions"] = []any{map[string]any{"name": "conformance", "expression": "false"}}
				setScopes(fields)
			}
		}
		if err := unstructured.SetNestedSlice(o.Object, hooks, "webhooks"); err != nil {
			return nil, fmt.Errorf("changing %s: %w", describe(o), err)
		}
	}
	if !found {
		return []string{"-k", m.overlay.Dir}, nil
	}
	content, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return nil, fmt.Errorf("writing overlay %s: %w", m.overlay.Dir, err)
	}
	file := filepath.Join(k.dir, "overlay.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, fmt.Errorf("writing overlay %s: %w", m.overlay.Dir, err)
	}
	return []string{"-f", file}, nil
}

// setScopes sets the default of the scope in the rules of a webhook. controller-gen cannot write it, and kubectl would
// report a change at the second installation.
func setScopes(hook map[string]any) {
	rules, _ := hook["rules"].([]any)
	for _, rule := range rules {
		if fields, ok := rule.(map[string]any); ok && fields["scope"] == nil {
			fields["scope"] = "*"
		}
	}
}

func isWebhookConfiguration(o *unstructured.Unstructured) bool {
	return o.GetKind() == "MutatingWebhookConfiguration" || o.GetKind() == "ValidatingWebhookConfiguration"
}

// ownSecrets reports whether a rule is about Secrets of the overlay by name, such as that of the webhooks' certificate.
func (m *manifests) ownSecrets(rule rbacv1.PolicyRule) bool {
	return len(rule.ResourceNames) > 0 && !slices.ContainsFunc(rule.ResourceNames, func(name string) bool {
		return !slices.ContainsFunc(m.objects, func(o unstructured.Unstructured) bool {
			return o.GetKind() == "Secret" && o.GetName() == name
		})
	})
}
