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

// Kubectl returns a function that runs kubectl against the API server of cfg and returns its standard output. kubectl
// has the version of the control plane. A nil cfg is for commands that need no API server. The test fails on an error
// and on any output to standard error, where kubectl prints warnings.
func Kubectl(t testing.TB, cfg *rest.Config) func(args ...string) string {
	t.Helper()
	set, err := assets.Find(t.Context(), assets.Options{Programs: []string{assets.Kubectl}})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig") // need not exist
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
		cmd.Stdout = &out
		cmd.Stderr = &warnings
		if err := cmd.Run(); err != nil || warnings.Len() > 0 {
			t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, &warnings)
		}
		return out.String()
	}
}

// Kustomize returns the objects that kustomize builds from a folder.
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
