package sandbox

import (
	"debug/buildinfo"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// The program of an image is linked without debug information, and is not the file of Build.
func TestProgramOfImage(t *testing.T) {
	goCache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(goCache)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p := &Project{Name: "widget", Dir: t.TempDir(), Package: "example.com/widget"}
	err = errors.Join(
		os.WriteFile(filepath.Join(p.Dir, "go.mod"), []byte("module example.com/widget\n"), 0o600),
		os.WriteFile(filepath.Join(p.Dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	program, err := p.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ofImage, err := p.buildForImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]bool{program: false, ofImage: true} {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stripped := slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
			return s.Key == "-ldflags" && s.Value == "-s -w"
		})
		if stripped != want || filepath.Base(file) != p.Name {
			t.Errorf("%s is linked without debug information: %t, want %t", file, stripped, want)
		}
	}
}
