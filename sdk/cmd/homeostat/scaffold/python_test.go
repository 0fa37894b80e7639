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
	args := []string{"new", "web-shop", "--group", "shop.example.com", "--kind", "WebShop", "--language", "python"}
	var out, errs bytes.Buffer
	if code := Main(t.Context(), append(args, "--dir", dir, "--homeostat", checkout), &out, &errs); code != 0 {
		t.Fatalf("the exit code is %d: %s", code, errs.String())
	}
	for name, want := range map[string]string{
		"operator.yaml": "kind: {apiVersion: shop.example.com/v1alpha1, kind: WebShop}",
		"reconcile.py":  `"app.kubernetes.io/name": "web-shop"`,
		"config/crd/shop.example.com_webshops.yaml": "name: webshops.shop.example.com",
		"config/rbac/role.yaml":                     "webshops/status",
		"local.mk":                                  checkout,
	} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s lacks %q: %v", name, want, err)
		}
	}
	if found, err := filepath.Glob(dir + "/*/*.go"); err != nil || len(found) > 0 {
		t.Errorf("there are files in Go: %v, %v", found, err)
	}
	for want, more := range map[string][]string{
		"is in a checkout of Homeostat":          {"--dir", checkout + "/operators/web-shop"},
		"--scope Cluster is for operators in Go": {"--scope", "Cluster"},
		"choose go or python":                    {"--language", "rust"},
		"--module is for operators in Go":        {"--module", "example.com/a"},
		"exists, and nothing is":                 {"--dir", dir},
	} {
		errs.Reset()
		code := Main(t.Context(), append(args, more...), &out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("with %v the exit code is %d: %s", more, code, errs.String())
		}
	}
}
