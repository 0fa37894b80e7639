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

// The embedded modules are invisible to the Go tool and to linters, so only this test detects a broken one.
func TestModuleResolves(t *testing.T) {
	eachModule(t, func(t *testing.T, m module, dir string) {
		targets := []string{"linux/" + runtime.GOARCH}
		if m.dir == controlPlane.binary {
			targets = append(targets, "darwin/arm64")
		}
		for _, target := range targets {
			goos, goarch, _ := strings.Cut(target, "/")
			args := []string{"list", "-mod=readonly", "-deps", "-f", "{{.ImportPath}}"}
			for _, e := range m.executables {
				args = append(args, e.pkg)
			}
			cmd := exec.CommandContext(t.Context(), "go", args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(),
				"GOWORK=off", "GOFLAGS=-mod=readonly", "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
			out, err := cmd.Output()
			if err != nil {
				if exit, ok := errors.AsType[*exec.ExitError](err); ok {
					t.Log(string(exit.Stderr))
				}
				t.Fatalf("%s: %v", target, err)
			}
			for _, want := range needed[m.dir] {
				if !strings.Contains(string(out), want+"\n") {
					t.Errorf("%s: the module does not need %s", target, want)
				}
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
