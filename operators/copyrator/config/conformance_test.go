// Package config_test checks the manifests in its subfolders on an API server.
package config_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/operators/copyrator"
	v1 "github.com/homeostat-dev/homeostat/operators/copyrator/api/v1"
	"github.com/homeostat-dev/homeostat/operators/copyrator/internal/versions"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conversion"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/conformance"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{}) }

const namespace = "copyrator-operator"

func TestConformance(t *testing.T) {
	t.Parallel()
	handler, err := conversion.Handler(versions.Conversion)
	if err != nil {
		t.Fatal(err)
	}
	err = conformance.Check(t.Context(), conformance.Operator{
		Setup: func(mgr manager.Manager, namespaces ...string) error {
			home := "conformance" // where the example is: a rule elsewhere would copy nothing to the operator's namespace
			if len(namespaces) > 0 {
				home = "default"
			}
			op := copyrator.New(copyrator.Options{Namespace: home})
			return op.SetupWithManager(mgr, sdk.InNamespaces(namespaces...))
		},
		AddToScheme: v1.AddToScheme,
		Overlays: []conformance.Overlay{
			{Dir: "default"},
			{Dir: "with-secrets", AllowSecrets: true},
			{Dir: "olm"},
			{Dir: "namespaced", WatchNamespaces: []string{namespace, "default"}},
		},
		Samples: "samples",
		Columns: map[string]string{
			"copyrators.flant.com": "NAME TYPE SOURCES NAMESPACES SYNCED DESIRED CONFLICTS READY AGE",
		},
		Conversion:       handler,
		Example:          example,
		Missing:          missing,
		LeaderElectionID: "copyrator.homeostat.dev",
		FirstOverlayOnly: testing.Short(),
	})
	if err != nil {
		t.Error(err)
	}
}

// example returns a source and a rule that copies it to the operator's namespace.
func example(inNamespace, name string) []client.Object {
	labels := map[string]string{"example": name}
	meta := metav1.ObjectMeta{Namespace: inNamespace, Name: name, Labels: labels}
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"key": "value"}},
		&v1.CopyratorRule{ObjectMeta: meta, Rule: v1.Rule{
			RuleType: "configmap", Selector: v1.Selector{Labels: labels}, TargetNamespaces: []string{namespace},
		}},
	}
}

// missing reports a rule without a copy as not reconciled.
func missing(o *unstructured.Unstructured) string {
	if synced, _, _ := unstructured.NestedInt64(o.Object, "status", "synced"); o.GetKind() == "CopyratorRule" && synced != 1 {
		return fmt.Sprintf("it has %d copies, want 1", synced)
	}
	return ""
}
