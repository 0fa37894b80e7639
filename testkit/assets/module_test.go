package assets

import (
	"errors"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// module writes the embedded module to a folder, as a build does.
func module(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source")
	check(t, writeModule(dir))
	return dir
}

// The embedded module is invisible to the Go tool and to linters, so only this test detects a broken one.
func TestModuleResolves(t *testing.T) {
	dir := module(t)
	for _, target := range []string{runtime.GOOS + "/" + runtime.GOARCH, "darwin/arm64"} {
		goos, goarch, _ := strings.Cut(target, "/")
		cmd := exec.CommandContext(t.Context(), "go", "list", "-mod=readonly", "-deps", "-f", "{{.ImportPath}}", ".")
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
		for _, want := range []string{
			"k8s.io/kubernetes/cmd/kube-apiserver/app", "sigs.k8s.io/kwok/pkg/kwok/controllers",
		} {
			if !strings.Contains(string(out), want+"\n") {
				t.Errorf("%s: the module does not need %s", target, want)
			}
		}
	}
}

func TestModuleVersion(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(module(t), "go.mod"))
	check(t, err)
	if !strings.Contains(string(data), "\tk8s.io/kubernetes "+KubernetesVersion+"\n") {
		t.Errorf("go.mod does not require k8s.io/kubernetes %s", KubernetesVersion)
	}
	staging := regexp.MustCompile(`(?m)^\tk8s\.io/\S+ => \S+ (\S+)$`)
	want := "v0" + strings.TrimPrefix(KubernetesVersion, "v1")
	for _, match := range staging.FindAllStringSubmatch(string(data), -1) {
		if match[1] != want {
			t.Errorf("go.mod replaces with another version than %s: %s", want, match[0])
		}
	}
}

func TestModuleIsFormatted(t *testing.T) {
	dir := module(t)
	for _, name := range []string{"main.go", "kwok.go"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		check(t, err)
		formatted, err := format.Source(data)
		check(t, err)
		if string(formatted) != string(data) {
			t.Errorf("%s is not formatted", name)
		}
	}
}
