package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat-dev/homeostat/testkit"
)

const role = "configrollout-operator"

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
