package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An operator of another repository, for a cluster-scoped kind, has no overlay for one namespace. Its chart has its own
// name, the URLs of its project, and no value for namespaces.
func TestChartOfTheWholeCluster(t *testing.T) {
	t.Parallel()
	dir := otherProject(t)
	if err := run([]string{"generate", "-name", "shop", "-path", "./chart", dir}, os.Stdout); err != nil {
		t.Fatal(err)
	}
	c := load(t, dir)
	if c.Name() != "shop" || c.Metadata.Home != "https://example.com/shop" || len(c.Metadata.Sources) != 1 ||
		!strings.HasPrefix(c.Metadata.Sources[0], "https://example.com/shop/") {
		t.Errorf("the chart %s is of %s, %v", c.Name(), c.Metadata.Home, c.Metadata.Sources)
	}
	for _, file := range c.Raw {
		for _, wrong := range []string{"watchNamespaces", "watch-namespaces", "operators/shop", "homeostat-dev"} {
			if strings.Contains(string(file.Data), wrong) {
				t.Errorf("%s has %q", file.Name, wrong)
			}
		}
	}
	if _, err := render(t, c, "shop", "watchNamespaces={a}"); err == nil {
		t.Error("the value watchNamespaces is accepted")
	}
	objects, err := render(t, c, "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	checkBindings(t, objects, "elsewhere")
	if err := run([]string{"generate", "-name", "shop", dir, dir}, os.Stdout); err == nil {
		t.Error("two operators have one name")
	}
}

// otherProject returns a folder with the configuration of an operator of another repository.
func otherProject(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkout")
	if err := os.CopyFS(filepath.Join(dir, "config"), os.DirFS(operators+"/myapp/config")); err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(dir, "config/manifests/bases/myapp-operator.clusterserviceversion.yaml")
	data, err := os.ReadFile(base)
	if err != nil {
		t.Fatal(err)
	}
	data = []byte(strings.ReplaceAll(string(data), "https://github.com/homeostat-dev/homeostat", "https://example.com/shop"))
	if err := os.WriteFile(base, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "config/namespaced")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkBindings checks that the roles are bound in the whole cluster, and to an account in the namespace of the operator.
func checkBindings(t *testing.T, objects []*unstructured.Unstructured, namespace string) {
	t.Helper()
	clusterWide := 0
	for _, o := range objects {
		switch o.GetKind() {
		case "ClusterRoleBinding":
			clusterWide++
		case "RoleBinding":
		default:
			continue
		}
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		first, _ := subjects[0].(map[string]any)
		if got, _ := first["namespace"].(string); got != namespace {
			t.Errorf("%s %s is for namespace %q", o.GetKind(), o.GetName(), got)
		}
	}
	if clusterWide != 2 {
		t.Errorf("%d roles are bound in the cluster, want those of the operator and of its metrics", clusterWide)
	}
}
