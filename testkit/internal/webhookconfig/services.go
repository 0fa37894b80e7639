package webhookconfig

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// A Use is the use of a Service by an object with webhooks.
type Use struct {
	Object  string // kind and name
	Service types.NamespacedName
}

// Services returns the Services by which admission and conversion webhooks are called, each once.
func Services(objects []*unstructured.Unstructured) (uses []Use) {
	known := map[types.NamespacedName]bool{}
	for _, object := range objects {
		for _, service := range services(object) {
			if !known[service] {
				known[service] = true
				uses = append(uses, Use{Object: object.GetKind() + " " + object.GetName(), Service: service})
			}
		}
	}
	return uses
}

func services(object *unstructured.Unstructured) (found []types.NamespacedName) {
	add := func(fields map[string]any, path ...string) {
		service, ok, err := unstructured.NestedMap(fields, append(path, "clientConfig", "service")...)
		if err != nil || !ok {
			return
		}
		namespace, _, _ := unstructured.NestedString(service, "namespace")
		name, _, _ := unstructured.NestedString(service, "name")
		found = append(found, types.NamespacedName{Namespace: namespace, Name: name})
	}
	switch {
	case IsConfiguration(object):
		webhooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, webhook := range webhooks {
			if webhook, ok := webhook.(map[string]any); ok {
				add(webhook)
			}
		}
	case object.GetKind() == "CustomResourceDefinition":
		add(object.Object, "spec", "conversion", "webhook")
	}
	return found
}

// IsFailedCall reports whether the message of an error says that the API server could not call a webhook.
func IsFailedCall(message string) bool {
	return strings.Contains(message, "failed calling webhook") || strings.Contains(message, "conversion webhook for ")
}
