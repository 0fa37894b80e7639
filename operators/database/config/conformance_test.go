// Package config_test checks the manifests in its subfolders on an API server.
package config_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/conformance"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{}) }

func TestConformance(t *testing.T) {
	t.Parallel()
	err := conformance.Check(t.Context(), conformance.Operator{
		Setup: func(mgr manager.Manager, namespaces ...string) error {
			return database.New(database.Options{}).SetupWithManager(mgr, sdk.InNamespaces(namespaces...))
		},
		AddToScheme:      v1.AddToScheme,
		Overlays:         []conformance.Overlay{{Dir: "default"}, {Dir: "namespaced", WatchNamespaces: []string{"default"}}},
		Samples:          "samples",
		Columns:          map[string]string{"databases.techoral.com": "NAME ENGINE VERSION READY STATE ENDPOINT AGE"},
		Example:          example,
		LeaderElectionID: "database.homeostat.dev",
		AllowSecrets:     true, // a Database has a Secret with its passwords
		FirstOverlayOnly: testing.Short(),
	})
	if err != nil {
		t.Error(err)
	}
}

func example(namespace, name string) []client.Object {
	return []client.Object{&v1.Database{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1.DatabaseSpec{Engine: v1.PostgreSQL, Version: "16", Storage: "1Gi", Replicas: new(int32(2))},
	}}
}
