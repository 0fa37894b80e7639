// Package config_test checks the manifests in its subfolders on an API server.
package config_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/operators/configrollout/internal/annotation"
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/conformance"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{}) }

func TestConformance(t *testing.T) {
	t.Parallel()
	err := conformance.Check(t.Context(), conformance.Operator{
		Setup: func(mgr manager.Manager, namespaces ...string) error {
			op, err := configrollout.New(configrollout.DefaultOptions())
			if err != nil {
				return err
			}
			return op.SetupWithManager(mgr, sdk.InNamespaces(namespaces...))
		},
		Overlays:         []conformance.Overlay{{Dir: "default"}, {Dir: "namespaced", WatchNamespaces: []string{"default"}}},
		Samples:          "samples",
		Example:          example,
		Missing:          missing,
		LeaderElectionID: "configrollout.homeostat.dev",
		FirstOverlayOnly: testing.Short(),
	})
	if err != nil {
		t.Error(err)
	}
}

// example returns a ConfigMap and an enabled Deployment that uses it.
func example(namespace, name string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{annotation.Enabled: "true"}}
	labels := map[string]string{"app": name}
	config := corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name},
	}}
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"a": "1"}},
		&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "c", Image: "nginx:1.21", EnvFrom: []corev1.EnvFromSource{config}}},
			}},
		}},
	}
}

// missing reports a Deployment without a record of its configuration.
func missing(o *unstructured.Unstructured) string {
	if o.GetKind() == "Deployment" && o.GetAnnotations()[annotation.ObservedDigest] == "" {
		return "it has no annotation " + annotation.ObservedDigest
	}
	return ""
}
