// Package config_test tests the manifests in its subfolders with kubectl on an API server.
package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{}) }

const (
	namespace = "configrollout-operator"
	role      = "configrollout-operator"
)

// Installing twice is idempotent.
func TestInstall(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"default", "namespaced"} {
		if testing.Short() && overlay != "default" {
			continue // each takes a control plane of its own
		}
		t.Run(overlay, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t, testkit.Private())
			kubectl := testkit.Kubectl(t, k.Config)
			kubectl("apply", "-k", overlay)
			for line := range strings.Lines(kubectl("apply", "-k", overlay)) {
				if !strings.HasSuffix(line, " unchanged\n") {
					t.Errorf("installing it again changes something: %s", line)
				}
			}
			kubectl("apply", "--server-side", "-k", "samples") // another manager created the namespace default
			checkPodAdmission(t, k)
		})
	}
}

// checkPodAdmission creates the operator's pod in its namespace, with a dry run. The namespace admits restricted pods
// only.
func checkPodAdmission(t *testing.T, k *testkit.K) {
	t.Helper()
	controller := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "configrollout-controller", Namespace: namespace}}
	k.Get(controller)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "controller", Namespace: namespace}, Spec: controller.Spec.Template.Spec,
	}
	if err := k.Client.Create(k.Context(), pod, client.DryRunAll); err != nil {
		t.Errorf("the operator's pod is not admitted: %v", err)
	}
}

// The roles have no wildcard and no Secrets.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"default", "namespaced"} {
		for _, o := range testkit.Kustomize(t, overlay) {
			if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
				continue
			}
			role := &rbacv1.ClusterRole{} // a Role has the same fields
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
				t.Fatal(err)
			}
			for _, rule := range role.Rules {
				if o.GetKind() == "Role" && slices.Contains(rule.Resources, "namespaces") {
					t.Errorf("%s: a Role cannot give a right about namespaces", overlay)
				}
				all := slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs)
				if slices.Contains(all, "*") || slices.Contains(rule.Resources, "secrets") {
					t.Errorf("%s: %s %s has the rule %v", overlay, o.GetKind(), o.GetName(), rule)
				}
			}
		}
	}
}

// The namespaced overlay has no cluster-scoped objects.
func TestNamespacedOverlayStaysInItsNamespaces(t *testing.T) {
	t.Parallel()
	var arguments []string
	for _, o := range testkit.Kustomize(t, "namespaced") {
		switch o.GetKind() {
		case "ClusterRole", "ClusterRoleBinding", "ConfigMap":
			t.Errorf("it contains %s %s", o.GetKind(), o.GetName())
		case "Role", "RoleBinding":
			want := namespace
			if o.GetName() == role {
				want = "default"
			}
			if o.GetNamespace() != want {
				t.Errorf("%s %s is in namespace %q, want %q", o.GetKind(), o.GetName(), o.GetNamespace(), want)
			}
		case "Deployment":
			arguments = argumentsOf(o)
		}
	}
	if !slices.Contains(arguments, "--watch-namespaces=default") {
		t.Errorf("the controller gets the arguments %q", arguments)
	}
}

// The component sets the flag --secrets and grants read access to Secrets, in both overlays, and no write access.
func TestSecretsComponent(t *testing.T) {
	t.Parallel()
	for _, overlay := range []string{"default", "namespaced"} {
		dir := t.TempDir()
		here, err := filepath.Abs(".")
		if err != nil {
			t.Fatal(err)
		}
		up, err := filepath.Rel(dir, here) // kustomize accepts only relative paths
		if err != nil {
			t.Fatal(err)
		}
		content := fmt.Sprintf("resources: [%[1]s/%[2]s]\ncomponents: [%[1]s/secrets]\n", up, overlay)
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		var arguments, verbs []string
		for _, o := range testkit.Kustomize(t, dir) {
			switch {
			case o.GetKind() == "Deployment":
				arguments = argumentsOf(o)
			case o.GetName() == role && strings.HasSuffix(o.GetKind(), "Role"):
				verbs = secretVerbs(t, o)
			}
		}
		if !slices.Contains(arguments, "--secrets") {
			t.Errorf("%s: the controller gets the arguments %q", overlay, arguments)
		}
		if want := []string{"get", "list", "watch"}; !slices.Equal(verbs, want) {
			t.Errorf("%s: it may %q Secrets, want %q", overlay, verbs, want)
		}
	}
}

func secretVerbs(t *testing.T, o unstructured.Unstructured) []string {
	t.Helper()
	role := &rbacv1.ClusterRole{} // a Role has the same fields
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, role); err != nil {
		t.Fatal(err)
	}
	for _, rule := range role.Rules {
		if slices.Contains(rule.Resources, "secrets") {
			return rule.Verbs
		}
	}
	return nil
}

func argumentsOf(deployment unstructured.Unstructured) []string {
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	container, _ := containers[0].(map[string]any)
	arguments, _, _ := unstructured.NestedStringSlice(container, "args")
	return arguments
}
