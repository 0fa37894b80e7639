package scaffold

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNewPython(t *testing.T) {
	t.Parallel()
	checkout, dir := fakeCheckout(t), filepath.Join(t.TempDir(), "web-shop")
	args := newPython(t, dir, checkout)
	for name, want := range map[string]string{
		"operator.yaml": "kind: {apiVersion: shop.example.com/v1alpha1, kind: WebShop}",
		"reconcile.py":  `"app.kubernetes.io/name": "web-shop"`,
		"config/crd/shop.example.com_webshops.yaml": "name: webshops.shop.example.com",
		"config/rbac/role.yaml":                     "webshops/status",
		"config/namespaced/kustomization.yaml":      "watched.yaml",
		"local.mk":                                  checkout,
	} {
		if text := readFile(t, dir, name); !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", name, want, text)
		}
	}
	if found, err := filepath.Glob(dir + "/*/*.go"); err != nil || len(found) > 0 {
		t.Errorf("there are files in Go: %v, %v", found, err)
	}
	var out, errs bytes.Buffer
	for want, more := range map[string][]string{
		"is in a checkout of Homeostat":   {"--dir", checkout + "/operators/web-shop"},
		"choose go or python":             {"--language", "rust"},
		"--module is for operators in Go": {"--module", "example.com/a"},
		"exists, and nothing is":          {"--dir", dir},
	} {
		errs.Reset()
		code := Main(t.Context(), append(args, more...), &out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("with %v the exit code is %d: %s", more, code, errs.String())
		}
	}
}

// The files of an operator of a cluster-scoped kind name the namespaces of its children.
func TestNewPythonOfClusterScopedKind(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "web-shop")
	newPython(t, dir, fakeCheckout(t), "--scope", "Cluster")
	for name, want := range map[string]string{
		"operator.yaml": "{apiVersion: v1, kind: Namespace}",
		"reconcile.py":  `h.new("v1", "Service", p.name, namespace=p.name,`,
		"scenario.yaml": "name: 'example-{namespace}'",
		"config/crd/shop.example.com_webshops.yaml": "scope: Cluster",
		"config/rbac/role.yaml":                     "namespaces",
	} {
		if text := readFile(t, dir, name); !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", name, want, text)
		}
	}
	for name, absent := range map[string]string{
		"reconcile.py": "config", "test_reconcile.py": "config", "operator.yaml": "references", "Makefile": "CONFIG=namespaced)",
	} {
		if text := readFile(t, dir, name); strings.Contains(text, absent) {
			t.Errorf("%s has %q:\n%s", name, absent, text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "config/namespaced")); !os.IsNotExist(err) {
		t.Errorf("there is config/namespaced: %v", err)
	}
}

// newPython writes a project, and returns the arguments without those for its location.
func newPython(t *testing.T, dir, checkout string, more ...string) []string {
	t.Helper()
	args := []string{"new", "web-shop", "--group", "shop.example.com", "--kind", "WebShop", "--language", "python"}
	args = append(args, more...)
	var out, errs bytes.Buffer
	if code := Main(t.Context(), append(args, "--dir", dir, "--homeostat", checkout), &out, &errs); code != 0 {
		t.Fatalf("the exit code is %d: %s", code, errs.String())
	}
	return args
}

func readFile(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
