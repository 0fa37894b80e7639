// Package config_test checks the manifests in its subfolders on an API server.
package config_test

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/operators/immortalcontainer"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/api/v1alpha1"
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer/internal/desired"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/conformance"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{AddToScheme: v1alpha1.AddToScheme}) }

func TestConformance(t *testing.T) {
	t.Parallel()
	err := conformance.Check(t.Context(), conformance.Operator{
		Setup: func(mgr manager.Manager, namespaces ...string) error {
			return immortalcontainer.Operator.SetupWithManager(mgr, sdk.InNamespaces(namespaces...))
		},
		AddToScheme:      v1alpha1.AddToScheme,
		Overlays:         []conformance.Overlay{{Dir: "default"}, {Dir: "namespaced", WatchNamespaces: []string{"default"}}},
		Samples:          "samples",
		Columns:          map[string]string{crd: "NAME IMAGE POD STARTS PHASE READY NODE AGE"},
		Categories:       []string{"all"},
		Pods:             map[string]corev1.PodSpec{"full-sample": fullSample(t)},
		Example:          example,
		LeaderElectionID: "immortalcontainer.homeostat.dev",
	})
	if err != nil {
		t.Error(err)
	}
}

func example(namespace, name string) []client.Object {
	return []client.Object{&v1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.ImmortalContainerSpec{Image: "nginx:latest"},
	}}
}

// fullSample returns the pod of the sample with all settings.
func fullSample(t *testing.T) corev1.PodSpec {
	t.Helper()
	raw, err := os.ReadFile("samples/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	full := &v1alpha1.ImmortalContainer{}
	if err := yaml.UnmarshalStrict(raw, full); err != nil {
		t.Fatal(err)
	}
	return desired.Pod(full).Spec
}
