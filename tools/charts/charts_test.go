package main

import (
	"errors"
	"io"
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

const operators = "../../operators"

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
	for _, file := range found {
		dir := filepath.Dir(filepath.Dir(file))
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			test(t, dir)
		})
	}
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
