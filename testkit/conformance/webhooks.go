package conformance

import (
	"encoding/pem"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat-dev/homeostat/testkit/internal/webhookconfig"
)

// source returns the arguments of kubectl that name the overlay. No pod serves the webhooks of an overlay, so their
// configurations get a condition by which the API server never calls them, and conversions call Operator.Conversion. Without
// it definitions get no conversion: the API server then changes only the version of an object.
func (k *kubectl) source(m *manifests) ([]string, error) {
	objects, found := make([]any, len(m.objects)), false
	for i := range m.objects {
		o := m.objects[i].DeepCopy()
		objects[i] = o.Object
		if o.GetKind() == "CustomResourceDefinition" {
			local, changed, err := k.localConversion(o)
			if err != nil {
				return nil, err
			}
			objects[i] = local.Object
			found = found || changed
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
	file, err := k.write("overlay.json", objects)
	return []string{"-f", file}, err
}

// serves reports whether an object is in a version that the overlay serves, or of a kind that it does not define.
func (m *manifests) serves(o *unstructured.Unstructured) bool {
	gvk := o.GroupVersionKind()
	for _, crd := range m.crds {
		if crd.Spec.Group == gvk.Group && crd.Spec.Names.Kind == gvk.Kind {
			return slices.ContainsFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
				return v.Name == gvk.Version && v.Served
			})
		}
	}
	return true
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

// localConversion returns the definition with a conversion that the API server can call, or with none.
func (k *kubectl) localConversion(
	crd *unstructured.Unstructured,
) (local *unstructured.Unstructured, changed bool, err error) {
	strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	switch {
	case k.conversion != nil:
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.conversion.Certificate().Raw})
		if local, err = webhookconfig.LocalizeConversion(crd, k.conversion.URL+"/convert", ca); err != nil {
			return nil, false, fmt.Errorf("reading %s: %w", describe(crd), err)
		}
		return local, true, nil
	case strategy == "Webhook":
		unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
		return crd, true, nil
	}
	return crd, false, nil
}
