package main

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// webhooks is the content of config/webhook.
type webhooks struct {
	Service        *unstructured.Unstructured
	Configurations []*unstructured.Unstructured
	// Authority and Rights are for a program that renews its own certificate.
	Authority []*unstructured.Unstructured // Secrets
	Rights    []*unstructured.Unstructured
	Converts  bool // whether a definition has a conversion webhook

	Volumes, Mounts []any // of the Deployment, for the templates
	ports           []any // of the pods, by number and by name
}

// addWebhooks reads config/webhook and the conversion of the definitions. c.Webhooks stays nil without both.
func (c *config) addWebhooks(objects []*unstructured.Unstructured) error {
	w := &webhooks{}
	for _, o := range objects {
		switch o.GetKind() {
		case "Service":
			w.Service = o
		case "Secret":
			w.Authority = append(w.Authority, o)
		case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			w.Configurations = append(w.Configurations, o)
		default:
			w.Rights = append(w.Rights, o)
		}
	}
	if len(rights(w.Rights)) != len(w.Rights) {
		return errors.New("config/webhook may have webhook configurations, a Service, a Secret, roles and bindings only")
	}
	for _, o := range slices.Concat(c.CRDs, w.Configurations) {
		for _, service := range services(o) {
			if w.Service == nil || service["name"] != w.Service.GetName() || service["namespace"] != c.Namespace {
				return fmt.Errorf("%s %s calls Service %v/%v: config/webhook needs that Service, in the namespace of the Deployment",
					o.GetKind(), o.GetName(), service["namespace"], service["name"])
			}
			w.Converts = w.Converts || o.GetKind() == kindDefinition
		}
	}
	if w.Service == nil {
		return nil
	}
	c.Webhooks = w
	w.addPorts(c.Container)
	for _, part := range []struct {
		name string
		of   *[]map[string]any
		to   *[]any
	}{{"volumes", &c.PodFields, &w.Volumes}, {"volumeMounts", &c.ContainerFields, &w.Mounts}} {
		*part.of = slices.DeleteFunc(*part.of, func(field map[string]any) bool {
			list, found := field[part.name].([]any)
			*part.to = append(*part.to, list...)
			return found
		})
	}
	return nil
}

const kindDefinition = "CustomResourceDefinition"

// Certificate returns the name of the Secret with a certificate of cert-manager.
func (w *webhooks) Certificate() string { return w.Service.GetName() + "-certificate" }

// addPorts finds the numbers and names of the container's ports that the Service selects.
func (w *webhooks) addPorts(container map[string]any) {
	ports, _, _ := unstructured.NestedSlice(w.Service.Object, "spec", "ports")
	for _, p := range ports {
		port, _ := p.(map[string]any)
		target, found := port["targetPort"]
		if !found {
			target = port["port"]
		}
		w.ports = append(w.ports, target)
		inPod, _ := container["ports"].([]any)
		for _, p := range inPod {
			if port, _ := p.(map[string]any); port["name"] == target || port["containerPort"] == target {
				w.ports = append(w.ports, port["name"], port["containerPort"])
			}
		}
	}
}

// isReached reports whether a rule of a NetworkPolicy is for clients of the webhooks alone.
func (w *webhooks) isReached(rule any) bool {
	if w == nil {
		return false
	}
	ingress, _ := rule.(map[string]any)
	ports, _ := ingress["ports"].([]any)
	for _, p := range ports {
		if port, _ := p.(map[string]any); !slices.Contains(w.ports, port["port"]) {
			return false
		}
	}
	return len(ports) > 0
}

// services returns the Services that an object makes the API server call, not copies.
func services(o *unstructured.Unstructured) (all []map[string]any) {
	conversion, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "conversion", "webhook")
	hooks, _ := o.Object["webhooks"].([]any)
	for _, h := range append(slices.Clip(hooks), conversion) {
		hook, _ := h.(map[string]any)
		client, _ := hook["clientConfig"].(map[string]any)
		if service, ok := client["service"].(map[string]any); ok {
			all = append(all, service)
		}
	}
	return all
}
