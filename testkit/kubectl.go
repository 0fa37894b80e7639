package testkit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// Kubectl returns a function that runs kubectl, of the version of the control plane, against the API server of cfg, and
// returns what it prints. Whoever needs no API server gives nil. An error fails the test, and so does anything that kubectl
// says beside what it prints, which is how it warns.
func Kubectl(t testing.TB, cfg *rest.Config) func(args ...string) string {
	t.Helper()
	set, err := assets.Find(t.Context(), assets.Options{Need: []string{assets.Kubectl}})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig") // which need not exist
	if cfg != nil {
		data, err := cluster.Kubeconfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(kubeconfig, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), set.Path(assets.Kubectl), args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		var out, warnings bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &warnings
		if err := cmd.Run(); err != nil || warnings.Len() > 0 {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, &warnings)
		}
		return out.String()
	}
}

// Kustomize returns the objects that kustomize makes of a folder.
func Kustomize(t testing.TB, folder string) []unstructured.Unstructured {
	t.Helper()
	var objects []unstructured.Unstructured
	for document := range strings.SplitSeq(Kubectl(t, nil)("kustomize", folder), "\n---\n") {
		o := unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}
