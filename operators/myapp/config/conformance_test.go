// Package config_test checks the manifests in its subfolders on an API server.
package config_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/operators/myapp"
	v1 "github.com/homeostat-dev/homeostat/operators/myapp/api/v1"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/conformance"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{}) }

func TestConformance(t *testing.T) {
	t.Parallel()
	err := conformance.Check(t.Context(), conformance.Operator{
		Setup: func(mgr manager.Manager, namespaces ...string) error {
			return myapp.Operator.SetupWithManager(mgr, sdk.InNamespaces(namespaces...))
		},
		AddToScheme:      v1.AddToScheme,
		Overlays:         []conformance.Overlay{{Dir: "default"}, {Dir: "namespaced", WatchNamespaces: []string{"default"}}},
		Samples:          "samples",
		Columns:          map[string]string{"myapps.mycompany.com": "NAME IMAGE READY REPLICAS VOLUME PHASE AGE"},
		Example:          example,
		LeaderElectionID: "myapp.homeostat.dev",
		FirstOverlayOnly: testing.Short(),
	})
	if err != nil {
		t.Error(err)
	}
}

func example(namespace, name string) []client.Object {
	app := &v1.MyApp{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	app.Spec.Replicas = new(int32(2))
	app.Spec.Storage.Enabled = new(false)
	return []client.Object{app}
}
