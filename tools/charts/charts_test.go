package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/homeostat-dev/homeostat/testkit"
)

// Charts install definitions and roles for a whole cluster, so these tests have a cluster of their own.
func TestMain(m *testing.M) { testkit.Main(m, testkit.Env{Workloads: true, Private: true}) }

const (
	operators = "../../operators"
	// mailbox is an operator for the whole cluster, with webhooks and conversion. Its chart is not stored.
	mailbox = "../../sdk/e2e/mailbox"
)

// eachChart runs a test on every chart in parallel.
func eachChart(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	t.Parallel()
	found, err := filepath.Glob(operators + "/*/chart/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 2 {
		t.Fatalf("there are the charts %v, want that of each operator", found)
	}
	dirs := []string{withChart(t, mailbox)}
	for _, file := range found {
		dirs = append(dirs, filepath.Dir(filepath.Dir(file)))
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			test(t, dir)
		})
	}
}

// withChart returns a new folder with the config of an operator and its generated chart.
func withChart(t *testing.T, operator string) string {
	t.Helper()
	source, err := filepath.Abs(operator)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), filepath.Base(source))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(source, "config"), filepath.Join(dir, "config")); err != nil {
		t.Fatal(err)
	}
	if err := generate(dir, "", ""); err != nil {
		t.Fatal(err)
	}
	return dir
}

// hasPart reports whether the config of an operator has that part.
func hasPart(dir, part string) bool {
	_, err := os.Stat(filepath.Join(dir, "config", part))
	return err == nil
}

// load reads the chart of an operator. Helm modifies a chart that it installs, so each use loads its own copy.
func load(t *testing.T, dir string) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(filepath.Join(dir, "chart"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// values parses arguments of --set.
func values(t *testing.T, set ...string) map[string]any {
	t.Helper()
	v, err := strvals.Parse(strings.Join(set, ","))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// render is `helm template`.
func render(t *testing.T, c *chart.Chart, namespace string, set ...string) ([]*unstructured.Unstructured, error) {
	t.Helper()
	install := action.NewInstall(&action.Configuration{Log: t.Logf})
	install.ReleaseName = c.Name()
	install.Namespace = namespace
	install.DryRun = true
	install.ClientOnly = true
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.37.0"}
	release, err := install.Run(c, values(t, set...))
	if err != nil {
		return nil, err
	}
	return decode(t, release.Manifest), nil
}

func decode(t *testing.T, manifest string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 1<<20); ; {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// find returns the only object of a kind, or nil.
func find(t *testing.T, objects []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == kind && found != nil {
			t.Fatalf("there are two objects of kind %s", kind)
		}
		if o.GetKind() == kind {
			found = o
		}
	}
	return found
}

// copyOf returns a new folder with a copy of an operator's config.
func copyOf(t *testing.T, operator string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), filepath.Base(operator))
	if err := os.CopyFS(filepath.Join(dir, "config"), os.DirFS(filepath.Join(operator, "config"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// edit replaces a text in a file of config, once.
func edit(t *testing.T, dir, file, from, to string) {
	t.Helper()
	file = filepath.Join(dir, "config", file)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), from) {
		t.Fatalf("%s does not have %q", file, from)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(data), from, to, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}
