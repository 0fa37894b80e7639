package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

const deployment = `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "op", "namespace": "NS"},
"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}`

func TestLoad(t *testing.T) {
	t.Parallel()
	p := load(t)
	if p.Name != "widget" || p.Package != "./cmd" {
		t.Errorf("%s, %s", p.Name, p.Package)
	}
	if d := p.Deployment; d.Namespace != "widget-system" || d.Spec.Template.Spec.ServiceAccountName != "widget-operator" {
		t.Errorf("kustomize was not used: %v", d)
	}
	if len(p.Objects) != 7 || len(p.Samples) != 1 {
		t.Errorf("%d objects and %d samples", len(p.Objects), len(p.Samples))
	}
}

func TestLoadErrors(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"go.mod": "module example.com/op\n", "cmd/main.go": "package main\nfunc main() {}\n",
		"config/crd/x.yaml":     "{kind: CustomResourceDefinition, metadata: {name: x}}",
		"config/rbac/x.yaml":    "{kind: ServiceAccount, metadata: {name: x}}",
		"config/manager/x.yaml": strings.ReplaceAll(deployment, "NS", "ns"),
	}
	tests := map[string]struct {
		reason string
		files  map[string]string // instead of or beside the valid ones; empty means none
		want   string
	}{
		"Good": {"plain files do", nil, ""},
		"NoConfig": {
			"the objects to install are missing",
			map[string]string{"config/crd/x.yaml": ""},
			"it has neither config/default nor config/crd",
		},
		"NoObject":   {"an empty folder is a mistake", map[string]string{"config/crd/x.yaml": "#"}, "no object found"},
		"BrokenYAML": {"the file is named", map[string]string{"config/rbac/x.yaml": "kind: ["}, "config/rbac: x.yaml"},
		"BadKustomize": {
			"kustomize's own words",
			map[string]string{"config/default/kustomization.yaml": "resources: [../nowhere]"},
			"config/default with kustomize",
		},
		"NoDeployment": {
			"the ServiceAccount is unknown",
			map[string]string{"config/manager/x.yaml": "{kind: Service, metadata: {name: x}}"},
			"its config has no Deployment",
		},
		"TwoDeployments": {
			"which one is the operator?",
			map[string]string{"config/rbac/y.yaml": strings.NewReplacer("NS", "ns", `"op"`, `"web"`).Replace(deployment)},
			"its config has two Deployments, web and op",
		},
		"NoNamespace": {
			"its account is in one",
			map[string]string{"config/manager/x.yaml": strings.ReplaceAll(deployment, "NS", "")},
			"its Deployment op has no namespace",
		},
		"NoProgram": {"nothing to run", map[string]string{"cmd/main.go": "package cmd"}, "it has no Go program"},
		"BrokenCode": {
			"it is found, but cannot be read", map[string]string{"cmd/main.go": "packag main"}, "expected 'package'",
		},
		"Programs": {
			"which one is it?",
			map[string]string{
				"cmd/main.go": "", "a/main.go": "package main\nfunc main() {}\n", "b/main.go": "package main\nfunc main() {}\n",
			},
			"it has 2 Go programs and none of them is in cmd",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, files := range []map[string]string{good, tt.files} {
				for file, text := range files {
					write(t, filepath.Join(dir, file), text)
				}
			}
			_, err := sandbox.Load(t.Context(), dir)
			var wrong *sandbox.ProjectError
			switch {
			case tt.want == "" && err != nil, tt.want != "" && !errors.As(err, &wrong):
				t.Errorf("%v, because %s", err, tt.reason)
			case tt.want != "" && !strings.Contains(err.Error(), tt.want):
				t.Errorf("%v, want %q, because %s", err, tt.want, tt.reason)
			}
		})
	}
	_, err := sandbox.Load(t.Context(), "testdata/nothing")
	if err == nil || err.Error() != "operator testdata/nothing: there is no such folder" {
		t.Errorf("%v", err)
	}
}

// write writes a file. For an empty text it removes the file, and the folder if it is empty then.
func write(t *testing.T, file, text string) {
	t.Helper()
	if text == "" {
		_ = os.Remove(file)
		_ = os.Remove(filepath.Dir(file))
		return
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}
