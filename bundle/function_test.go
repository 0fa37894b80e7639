package bundle_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/homeostat-dev/homeostat/bundle"
)

// The bundle of a function in Python lists the kinds of its declaration, and the architecture of its image.
func TestFunction(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "myapp")
	if err := os.CopyFS(dir, os.DirFS("../operators/myapp")); err != nil {
		t.Fatal(err)
	}
	declared := "kind: {apiVersion: mycompany.com/v1, kind: MyApp}\nowns:\n- {apiVersion: apps/v1, kind: Deployment}\n"
	if err := os.WriteFile(filepath.Join(dir, "operator.yaml"), []byte(declared), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Render(dir, image(t, "myapp"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(b.CSV.Spec.CustomResourceDefinitions.Owned[0].Resources); n < 2 {
		t.Errorf("with types in Go, there are %d kinds", n)
	}
	if err := os.RemoveAll(filepath.Join(dir, "api")); err != nil {
		t.Fatal(err)
	}
	b, err = bundle.Render(dir, image(t, "myapp"))
	if err != nil {
		t.Fatal(err)
	}
	owned := b.CSV.Spec.CustomResourceDefinitions.Owned
	want := []v1alpha1.APIResourceReference{{Kind: "Deployment", Version: "v1"}}
	if len(owned) != 1 || !slices.Equal(owned[0].Resources, want) {
		t.Errorf("the kinds are %+v", owned)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		if _, ok := b.CSV.Labels["operatorframework.io/arch."+arch]; ok != (arch == runtime.GOARCH) {
			t.Errorf("supported on %s: %t", arch, ok)
		}
	}
	if err := os.Remove(filepath.Join(dir, "operator.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Render(dir, image(t, "myapp")); err == nil {
		t.Error("there are neither types nor a declaration, and no error")
	}
}
