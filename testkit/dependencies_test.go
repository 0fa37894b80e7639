package testkit_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A test that imports these packages must not compile the sdk, the sandbox or kustomize: see docs/adr/0083.
func TestDependencies(t *testing.T) {
	t.Parallel()
	const list = "{{.ImportPath}}{{range .Deps}}\n{{.}}{{end}}"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", list, ".", "./chaos", "./gen").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		for _, unwanted := range []string{
			"github.com/homeostat-dev/homeostat/sdk", "github.com/homeostat-dev/homeostat/testkit/sandbox",
			"github.com/homeostat-dev/homeostat/testkit/cmd", "sigs.k8s.io/kustomize",
		} {
			if path == unwanted || strings.HasPrefix(path, unwanted+"/") {
				t.Errorf("an importer of testkit compiles %s", path)
			}
		}
	}
}
