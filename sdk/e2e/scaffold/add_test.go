package scaffold

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Kinds, versions and webhooks are added to projects with a kind of either scope, in either order. The projects compile, and
// controller-gen changes nothing. The tests of what was added and of the manifests pass. With -short these are those of one
// project, and try no faults.
func TestAdd(t *testing.T) {
	t.Parallel()
	homeostat := filepath.Join(t.TempDir(), "homeostat")
	run(t, root, "go", "-C", "sdk/cmd/homeostat", "build", "-o", homeostat, ".")
	shop := newOutsideModule(t, "web-shop", "--group", "shop.example.com", "--kind", "WebShop")
	addRoutes(t, shop)
	team := newOutsideModule(t, "team", "--group", "example.com", "--kind", "Team", "--scope", "Cluster")
	requireRefused(t, shop, homeostat, "version v1beta1", "_webshops.yaml is older than api/v1alpha1: run `make generate`")
	generate(t, shop, "web-shop")
	for _, args := range []string{
		"webhook", "kind Coupon", "version v1beta1 --kind WebShop", "version v1 --kind Coupon",
		"webhook --kind Coupon --defaulting",
	} {
		inWorkspace(t, shop, homeostat, append([]string{"add"}, strings.Fields(args)...)...)
	}
	for _, args := range []string{
		"version v1beta1", "webhook --kind Team --validating", "kind Member --scope Cluster --group people.example.com",
		"version v1 --kind Team",
	} {
		inWorkspace(t, team, homeostat, append([]string{"add"}, strings.Fields(args)...)...)
	}
	for name, dir := range map[string]string{"web-shop": shop, "team": team} {
		requireGeneratedUnchanged(t, dir, name)
		checkCode(t, dir)
	}
	requireRefused(t, shop, homeostat, "webhook --kind WebShop", "the kind WebShop has webhooks already")
	requireRefused(t, shop, homeostat, "kind Coupon", "the project has the kind Coupon")
	requireRefused(t, shop, homeostat, "version v1beta1 --kind WebShop", "the kind WebShop has the version v1beta1")
	args := withShortFlag("./internal/...", "./config")
	if testing.Short() {
		args = append([]string{"-skip", "TestFaults|TestPathIndependence"}, args...)
	}
	inWorkspace(t, shop, "go", append([]string{"test", "-timeout", "30m"}, args...)...)
	if !testing.Short() {
		inWorkspace(t, team, "go", "test", "-timeout", "30m", "./...")
		requirePackages(t, shop, "web-shop")
		requirePackages(t, team, "team")
	}
}

// addRoutes adds a list of type map to the Go types of a project. The manifests are those of before.
func addRoutes(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "api/v1alpha1/webshop_spec.go")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content = append(bytes.TrimSuffix(content, []byte("}\n")), `	// Routes are the hosts that it serves.
	// +optional
	// +listType=map
	// +listMapKey=host
	Routes []Route `+"`json:\"routes,omitempty\"`"+`
}

// Route is a host.
type Route struct {
	// Host is the name of the host.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Host string `+"`json:\"host\"`"+`
	// Path is the path below which it serves.
	// +optional
	Path string `+"`json:\"path,omitempty\"`"+`
}
`...)
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// requirePackages renders the chart and the bundle of a project as its Makefile does, with an image that does not exist.
func requirePackages(t *testing.T, dir, name string) {
	t.Helper()
	out := t.TempDir()
	images := filepath.Join(out, "images.txt")
	image := "registry.invalid/" + name + "@sha256:" + strings.Repeat("0", 64) + "\n"
	if err := os.WriteFile(images, []byte(image), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, filepath.Join(root, "tools/charts"), "go", "run", ".", "generate", "-name", name, "-path", "./chart", dir)
	run(t, filepath.Join(root, "tools/charts"), "go", "run", ".", "package", "-version", "0.1.0", "-o", out, dir)
	bundle := filepath.Join(root, "bundle")
	run(t, bundle, "go", "run", "./cmd/bundle", "render", "-name", name, "-o", out, "-images", images, dir)
	run(t, bundle, "go", "run", "./cmd/bundle", "check", filepath.Join(out, name))
}

func requireRefused(t *testing.T, dir, homeostat, args, want string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), homeostat, append([]string{"add"}, strings.Fields(args)...)...)
	cmd.Dir = dir
	before := contents(t, dir)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), want) {
		t.Errorf("homeostat add %s: %v\n%s", args, err, out)
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Errorf("homeostat add %s changes files, -before +after:\n%s", args, diff)
	}
}
