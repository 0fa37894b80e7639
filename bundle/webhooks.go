package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// separateWebhooks removes the objects of config/webhook from the others. OLM makes a Service, the configurations and the
// certificate itself, so the operator needs no permission for them. Objects that the overlay does not have are no webhooks
// of the bundle.
func (c *config) separateWebhooks() {
	all, webhooks := c.objects, c.webhooks
	c.objects = without(all, webhooks)
	c.webhooks = without(webhooks, without(webhooks, all))
}

// without returns the objects that are not among others, by kind and name.
func without(all, others []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(others, func(other *unstructured.Unstructured) bool {
			return o.GroupVersionKind() == other.GroupVersionKind() && o.GetNamespace() == other.GetNamespace() &&
				o.GetName() == other.GetName()
		})
	})
}

// addWebhooks adds the webhooks of config/webhook, and the conversion of the definitions.
func (b *Bundle) addWebhooks(c *config) error {
	var all []v1alpha1.WebhookDescription
	for _, o := range c.webhooks {
		var found []v1alpha1.WebhookDescription
		var err error
		switch o.GetKind() {
		case "MutatingWebhookConfiguration":
			found, err = mutating(o)
		case "ValidatingWebhookConfiguration":
			found, err = validating(o)
		}
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	all = append(all, converting(c.crds)...)
	if len(all) == 0 {
		return nil
	}
	port, err := c.webhookPort()
	if err != nil {
		return err
	}
	deployment := b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Name
	for i := range all {
		all[i].DeploymentName = deployment
		all[i].ContainerPort = port.Port
		all[i].TargetPort = &port.TargetPort
	}
	slices.SortFunc(all, func(x, y v1alpha1.WebhookDescription) int {
		return cmp.Or(strings.Compare(string(x.Type), string(y.Type)), strings.Compare(x.GenerateName, y.GenerateName))
	})
	b.CSV.Spec.WebhookDefinitions = all
	return b.setService(deployment+"-service", port.Port)
}

// webhookPort returns the port of the Service in config/webhook.
func (c *config) webhookPort() (corev1.ServicePort, error) {
	for _, o := range c.webhooks {
		if o.GetKind() != "Service" {
			continue
		}
		service := &corev1.Service{}
		if err := convert(o, service); err != nil {
			return corev1.ServicePort{}, err
		}
		if len(service.Spec.Ports) == 1 {
			port := service.Spec.Ports[0]
			if port.TargetPort == (intstr.IntOrString{}) {
				port.TargetPort = intstr.FromInt32(port.Port)
			}
			return port, nil
		}
	}
	return corev1.ServicePort{}, errors.New("config/webhook needs a Service with one port: the API server calls webhooks there")
}

// setService makes the definitions name OLM's Service. OLM sets namespace and caBundle, and replaces a definition by that of
// the next bundle before it does so. Requests for another version than the stored one fail meanwhile. Without a conversion,
// the API server would answer with unconverted objects.
func (b *Bundle) setService(name string, port int32) error {
	for _, o := range b.Objects {
		path := []string{"spec", "conversion", "webhook", "clientConfig", "service"}
		service, found, err := unstructured.NestedMap(o.Object, path...)
		if err != nil {
			return fmt.Errorf("reading %s: %w", o.GetName(), err)
		}
		if o.GetKind() != kindDefinition || !found {
			continue
		}
		service["name"] = name
		service["port"] = int64(port)
		if err := unstructured.SetNestedMap(o.Object, service, path...); err != nil {
			return fmt.Errorf("writing %s: %w", o.GetName(), err)
		}
	}
	return nil
}

func mutating(o *unstructured.Unstructured) (all []v1alpha1.WebhookDescription, err error) {
	config := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := convert(o, config); err != nil {
		return nil, err
	}
	for _, w := range config.Webhooks {
		d, err := describe(w.Name, &w.ClientConfig, w.NamespaceSelector != nil || len(w.MatchConditions) > 0)
		if err != nil {
			return nil, err
		}
		d.Type = v1alpha1.MutatingAdmissionWebhook
		d.Rules = w.Rules
		d.FailurePolicy = w.FailurePolicy
		d.MatchPolicy = w.MatchPolicy
		d.ObjectSelector = w.ObjectSelector
		d.SideEffects = w.SideEffects
		d.TimeoutSeconds = w.TimeoutSeconds
		d.AdmissionReviewVersions = w.AdmissionReviewVersions
		d.ReinvocationPolicy = w.ReinvocationPolicy
		all = append(all, d)
	}
	return all, nil
}

func validating(o *unstructured.Unstructured) (all []v1alpha1.WebhookDescription, err error) {
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := convert(o, config); err != nil {
		return nil, err
	}
	for _, w := range config.Webhooks {
		d, err := describe(w.Name, &w.ClientConfig, w.NamespaceSelector != nil || len(w.MatchConditions) > 0)
		if err != nil {
			return nil, err
		}
		d.Type = v1alpha1.ValidatingAdmissionWebhook
		d.Rules = w.Rules
		d.FailurePolicy = w.FailurePolicy
		d.MatchPolicy = w.MatchPolicy
		d.ObjectSelector = w.ObjectSelector
		d.SideEffects = w.SideEffects
		d.TimeoutSeconds = w.TimeoutSeconds
		d.AdmissionReviewVersions = w.AdmissionReviewVersions
		all = append(all, d)
	}
	return all, nil
}

// describe describes a webhook by its name and path.
func describe(
	name string, client *admissionregistrationv1.WebhookClientConfig, isSelective bool,
) (d v1alpha1.WebhookDescription, err error) {
	switch {
	case client.Service == nil:
		return d, fmt.Errorf("webhook %s calls no Service, and OLM cannot install another webhook", name)
	case isSelective:
		return d, fmt.Errorf("webhook %s has a namespaceSelector or matchConditions, which a bundle cannot have: "+
			"use an objectSelector, or test it in the program", name)
	}
	return v1alpha1.WebhookDescription{GenerateName: name, WebhookPath: client.Service.Path}, nil
}

// converting describes the conversion webhooks of definitions.
func converting(crds []*apiextensionsv1.CustomResourceDefinition) (all []v1alpha1.WebhookDescription) {
	for _, crd := range crds {
		if !convertsByWebhook(crd) {
			continue
		}
		none := admissionregistrationv1.SideEffectClassNone
		webhook := crd.Spec.Conversion.Webhook
		all = append(all, v1alpha1.WebhookDescription{
			GenerateName: "convert." + crd.Name, Type: v1alpha1.ConversionWebhook, ConversionCRDs: []string{crd.Name},
			SideEffects: &none, AdmissionReviewVersions: webhook.ConversionReviewVersions,
			WebhookPath: webhook.ClientConfig.Service.Path,
		})
	}
	return all
}

// convertsByWebhook reports whether a definition names a Service that converts objects.
func convertsByWebhook(crd *apiextensionsv1.CustomResourceDefinition) bool {
	c := crd.Spec.Conversion
	return c != nil && c.Strategy == apiextensionsv1.WebhookConverter && c.Webhook != nil && c.Webhook.ClientConfig != nil &&
		c.Webhook.ClientConfig.Service != nil
}

// checkWebhooks reports webhooks that OLM v0 or v1 refuses in the cluster.
func checkWebhooks(b *manifests.Bundle, addError func(format string, args ...any)) {
	spec := &b.CSV.Spec
	seen := map[string]bool{}
	for _, w := range spec.WebhookDefinitions {
		id := string(w.Type) + " " + w.GenerateName
		if seen[id] {
			addError("two webhooks are %s", id)
		}
		seen[id] = true
		if len(validation.IsDNS1123Subdomain(w.GenerateName)) > 0 {
			addError("%s: the name is no domain in lower case", id)
		}
		if !slices.ContainsFunc(spec.InstallStrategy.StrategySpec.DeploymentSpecs,
			func(d v1alpha1.StrategyDeploymentSpec) bool { return d.Name == w.DeploymentName }) {
			addError("%s: there is no Deployment %q", id, w.DeploymentName)
		}
		for _, rule := range w.Rules {
			for _, group := range []string{"*", "operators.coreos.com"} {
				if slices.Contains(rule.APIGroups, group) {
					addError("%s: a rule has the API group %s", id, group)
				}
			}
		}
	}
	checkConversions(b, addError)
}

// checkConversions compares the conversion webhooks with the definitions.
func checkConversions(b *manifests.Bundle, addError func(format string, args ...any)) {
	converted := map[string]bool{}
	for _, w := range b.CSV.Spec.WebhookDefinitions {
		for _, crd := range w.ConversionCRDs {
			if converted[crd] {
				addError("two webhooks convert %s", crd)
			}
			converted[crd] = true
			if !slices.ContainsFunc(b.CSV.Spec.CustomResourceDefinitions.Owned,
				func(d v1alpha1.CRDDescription) bool { return d.Name == crd }) {
				addError("webhook %s converts %s, which the operator does not own", w.GenerateName, crd)
			}
		}
	}
	for _, crd := range b.V1CRDs {
		switch {
		case converted[crd.Name] && !convertsByWebhook(crd):
			addError("the definition %s has no conversion webhook: an upgrade would take the conversion from it for a time", crd.Name)
		case !converted[crd.Name] && convertsByWebhook(crd):
			addError("no webhook of the ClusterServiceVersion converts %s, as its definition says", crd.Name)
		}
	}
}
