package assets

import (
	"errors"
	"go/format"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// eachModule runs a test for each embedded module, in a folder with its files, as a build writes them.
func eachModule(t *testing.T, test func(t *testing.T, m module, dir string)) {
	t.Helper()
	for _, p := range []*product{controlPlane, nodes} {
		for _, m := range p.modules {
			t.Run(path.Base(m.dir), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "source")
				check(t, p.write(m, dir))
				test(t, m, dir)
			})
		}
	}
}

// needed maps the folder of a module to packages that it needs.
var needed = map[string][]string{
	"controlplane": {"k8s.io/kubernetes/cmd/kube-apiserver/app", "sigs.k8s.io/kwok/pkg/kwok/controllers"},
	"nodes": {
		"k8s.io/kubernetes/cmd/kubelet/app", "k8s.io/kubernetes/cmd/kube-proxy/app", "github.com/coredns/coredns/coremain",
		"github.com/homeostat-dev/homeostat/testkit/assets/nodes/volume",
	},
	"nodes/volume/sidecars": {"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"},
	"nodes/ingress":         {"github.com/zalando/skipper/dataclients/kubernetes"},
	"nodes/metrics":         {"sigs.k8s.io/metrics-server/cmd/metrics-server/app"},
}

// listed returns a line for each package that the programs of a module need on a system: the template of `go list -f`.
func listed(t *testing.T, m module, dir, system, template string) []string {
	t.Helper()
	goos, goarch, _ := strings.Cut(system, "/")
	args := []string{"list", "-mod=readonly", "-deps", "-f", template}
	for _, e := range m.executables {
		args = append(args, e.pkg)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Log(string(exit.Stderr))
		}
		t.Fatalf("%s: %v", system, err)
	}
	return strings.Fields(string(out))
}

// The embedded modules are invisible to the Go tool and to linters, so only this test detects a broken one.
func TestModuleResolves(t *testing.T) {
	eachModule(t, func(t *testing.T, m module, dir string) {
		systems := []string{"linux/" + runtime.GOARCH}
		if m.dir == controlPlane.binary {
			systems = append(systems, "darwin/arm64")
		}
		for _, system := range systems {
			packages := listed(t, m, dir, system, "{{.ImportPath}}")
			for _, want := range needed[m.dir] {
				if !slices.Contains(packages, want) {
					t.Errorf("%s: the module does not need %s", system, want)
				}
			}
		}
	})
}

// A package that two modules use in different versions would be compiled twice, with all packages that import it.
func TestModulesAgree(t *testing.T) {
	const template = `{{with .Module}}{{.Path}}@{{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}`
	versions := map[string]string{} // those of the control plane, which comes first
	eachModule(t, func(t *testing.T, m module, dir string) {
		for _, used := range listed(t, m, dir, "linux/"+runtime.GOARCH, template) {
			path, version, _ := strings.Cut(used, "@")
			if m.dir == controlPlane.binary {
				versions[path] = version
			}
			if want := versions[path]; want != "" && want != version {
				t.Errorf("%s has version %s, and the control plane %s", path, version, want)
				versions[path] = "" // once
			}
		}
	})
}

func TestModuleVersion(t *testing.T) {
	eachModule(t, func(t *testing.T, m module, dir string) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		check(t, err)
		if m.dir == "nodes/ingress" { // skipper uses no library of Kubernetes
			if strings.Contains(string(data), "\tk8s.io/") {
				t.Error("go.mod requires a library of Kubernetes")
			}
			return
		}
		want := "v0" + strings.TrimPrefix(KubernetesVersion, "v1")
		if required := "\tk8s.io/client-go " + want; !strings.Contains(string(data), required) {
			t.Errorf("go.mod does not require%s", required)
		}
		staging := regexp.MustCompile(`(?m)^\tk8s\.io/\S+ => \S+ (\S+)$`)
		for _, match := range staging.FindAllStringSubmatch(string(data), -1) {
			if match[1] != want {
				t.Errorf("go.mod replaces with another version than %s: %s", want, match[0])
			}
		}
	})
}

func TestModuleIsFormatted(t *testing.T) {
	eachModule(t, func(t *testing.T, _ module, dir string) {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		check(t, err)
		if len(files) == 0 {
			t.Error("the module has no source")
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			check(t, err)
			formatted, err := format.Source(data)
			check(t, err)
			if string(formatted) != string(data) {
				t.Errorf("%s is not formatted", file)
			}
		}
	})
}
