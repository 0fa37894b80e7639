package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An operator of another repository, for a cluster-scoped kind, has no overlay for one namespace. Its chart has its own name,
// the URLs of its project, and no value for namespaces.
func TestChartOfTheWholeCluster(t *testing.T) {
	t.Parallel()
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
	subject := func(o *unstructured.Unstructured) string {
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		first, _ := subjects[0].(map[string]any)
		namespace, _ := first["namespace"].(string)
		return namespace
	}
	clusterWide := 0
	for _, o := range objects {
		if o.GetKind() == "ClusterRoleBinding" {
			clusterWide++
		}
		if strings.HasSuffix(o.GetKind(), "Binding") && o.GetKind() != "ValidatingAdmissionPolicyBinding" && subject(o) != "elsewhere" {
			t.Errorf("%s %s is for namespace %q", o.GetKind(), o.GetName(), subject(o))
		}
	}
	if clusterWide != 2 {
		t.Errorf("%d roles are bound in the cluster, want those of the operator and of its metrics", clusterWide)
	}
	if err := run([]string{"generate", "-name", "shop", dir, dir}, os.Stdout); err == nil {
		t.Error("two operators have one name")
	}
}
