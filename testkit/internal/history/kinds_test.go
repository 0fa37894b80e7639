package history_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/internal/history"
)

// schemeOf returns a scheme with these versions of Thing.
func schemeOf(versions ...string) *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, version := range versions {
		kind := schema.GroupVersionKind{Group: "history.test", Version: version, Kind: "Thing"}
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
	}
	return scheme
}

// A kind is watched in one version: of those in the scheme, the one that the API server prefers.
func TestVersions(t *testing.T) {
	t.Parallel()
	k := testkit.New(t, testkit.Private()) // private, because the definition is visible to all
	definition := newDefinition()
	schemaOfV1 := definition.Spec.Versions[0].Schema
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		definition.Spec.Versions = append(definition.Spec.Versions,
			apiextensionsv1.CustomResourceDefinitionVersion{Name: version, Served: true, Schema: schemaOfV1})
	}
	k.Apply(definition)
	k.Wait("the kind", func(ctx context.Context) error { return served(ctx, k.Config, "things") })

	versions := map[string]string{ // those in the scheme, and the watched one
		"": "v1", "v1alpha1": "v1alpha1", "v1beta1": "v1beta1", "v1alpha1 v1beta1": "v1beta1", "v1alpha1 v1": "v1",
		"v2": "v1", "v1alpha1 v2": "v1alpha1",
	}
	logs := map[string]*history.Log{}
	for typed := range versions {
		h := acquireFor(t, k.Config, schemeOf(strings.Fields(typed)...))
		t.Cleanup(h.Release)
		logs[typed] = h.Follow(k.Namespace)
	}
	first, second := acquireFor(t, k.Config, schemeOf("v1alpha1")), acquireFor(t, k.Config, schemeOf("v1alpha1"))
	if first != second {
		t.Error("schemes with the same types have two sets of watches")
	}
	first.Release()
	second.Release()
	thing := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "history.test/v1", "kind": "Thing"}}
	thing.SetName("thing")
	k.Apply(thing)
	for typed, want := range versions {
		await(t, logs[typed], "thing", 1)
		var got []string
		for _, c := range logs[typed].Changes() {
			if c.Object.GetName() == "thing" {
				got = append(got, c.Resource.Version+" "+c.Object.GetAPIVersion())
			}
		}
		if all := []string{want + " history.test/" + want}; !slices.Equal(got, all) {
			t.Errorf("with a scheme of %q the log has %q, want %q", typed, got, all)
		}
	}
}
