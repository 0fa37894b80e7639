package main

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// waitDenied waits until a webhook rejects an object in a namespace. The API server learns of a configuration with a delay.
func (r *releases) waitDenied(namespace string) {
	r.t.Helper()
	r.k.Wait("the webhook to reject an object", func(ctx context.Context) error {
		o := r.samples(namespace)[0]
		o.SetName("invalid")
		o.Object["spec"] = map[string]any{"address": "nowhere"}
		err := r.k.Client.Create(ctx, o)
		const want = `admission webhook "validate.mailboxes.mail.homeostat.dev" denied the request`
		if err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("the error is %w", err)
		}
		return nil
	})
}

// isStored reports whether the API server can read a sample without a webhook.
func (r *releases) isStored(sample *unstructured.Unstructured) bool {
	for _, crd := range r.definitions {
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, v := range versions {
			version, _ := v.(map[string]any)
			if kind == sample.GetKind() && version["name"] == sample.GroupVersionKind().Version {
				return version["storage"] == true
			}
		}
	}
	return true
}

// watchConversion begins to record the states of a definition with a conversion webhook. check expects all states up to that
// of a chart to have the same conversion.
func (r *releases) watchConversion(objects []*unstructured.Unstructured) (check func(until string)) {
	r.t.Helper()
	var crd *unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == kindDefinition && len(services(o)) > 0 {
			crd = o.DeepCopy()
		}
	}
	if crd == nil {
		return func(string) {}
	}
	r.k.Get(crd)
	want := conversion(crd)
	if !strings.Contains(want, "caBundle") {
		r.t.Errorf("the conversion is %s", want)
	}
	c, err := dynamic.NewForConfig(r.k.Config)
	if err != nil {
		r.t.Fatal(err)
	}
	definitions := schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	w, err := c.Resource(definitions).Watch(r.t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + crd.GetName(), ResourceVersion: crd.GetResourceVersion(),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(w.Stop)
	return func(until string) {
		r.t.Helper()
		for event := range w.ResultChan() {
			state, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				r.t.Fatalf("the watch has ended: %v", event.Object)
			}
			if got := conversion(state); got != want {
				r.t.Errorf("the conversion was %s and is %s", want, got)
			}
			if state.GetAnnotations()[revision] == until {
				return
			}
		}
		r.t.Error("the watch has ended early")
	}
}

func conversion(crd *unstructured.Unstructured) string {
	value, _, _ := unstructured.NestedMap(crd.Object, "spec", "conversion")
	return fmt.Sprint(value)
}
