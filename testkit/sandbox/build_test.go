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

// useOwnCache makes a cache for programs. The go command keeps its own.
func useOwnCache(t *testing.T) {
	t.Helper()
	goCache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(goCache)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

// The program of an image is linked without debug information, and is not the file of Build.
func TestProgramOfImage(t *testing.T) {
	useOwnCache(t)
	p := &Project{Name: "widget", Dir: t.TempDir(), Package: "example.com/widget"}
	err := errors.Join(
		os.WriteFile(filepath.Join(p.Dir, "go.mod"), []byte("module example.com/widget\n"), 0o600),
		os.WriteFile(filepath.Join(p.Dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	program, err := p.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ofImage, err := buildAll(t.Context(), []*Project{p}, true)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]bool{program: false, ofImage[0]: true} {
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

// workspace makes a workspace with two modules, whose programs print what a package of a third one has, and returns the
// projects and the file of that package.
func workspace(t *testing.T) (projects []*Project, shared string) {
	t.Helper()
	root := t.TempDir()
	shared = filepath.Join(root, "shared", "shared.go")
	write(t, filepath.Join(root, "go.work"), "go 1.26\n\nuse (\n\t./shared\n\t./first\n\t./second\n)\n")
	write(t, filepath.Join(root, "shared", "go.mod"), "module example.com/shared\n\ngo 1.26\n")
	write(t, shared, "package shared\n\nconst Text = `one`\n")
	for _, name := range []string{"first", "second"} {
		p := &Project{Name: name, Dir: filepath.Join(root, name), Package: "./cmd"}
		write(t, filepath.Join(p.Dir, "go.mod"), "module example.com/"+name+"\n\ngo 1.26\n")
		write(t, filepath.Join(p.Dir, "cmd", "main.go"),
			"package main\n\nimport \"example.com/shared\"\n\nfunc main() { print(`"+name+" ` + shared.Text) }\n")
		projects = append(projects, p)
	}
	return projects, shared
}

// beforeBuild runs a command of the shell before each go build of the test.
func beforeBuild(t *testing.T, command string) {
	t.Helper()
	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "go")
	write(t, file, "#!/bin/sh\nif [ \"$1\" = build ]; then "+command+"; fi\nexec "+program+" \"$@\"\n")
	if err := os.Chmod(file, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(file)+":"+os.Getenv("PATH"))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Programs are built again after a change of a package that they import, of the program's file, and of GOFLAGS. Without a
// change no program is built.
func TestBuildAll(t *testing.T) {
	useOwnCache(t)
	projects, shared := workspace(t)
	var files []string
	build := func() {
		t.Helper()
		var err error
		if files, err = buildAll(t.Context(), projects, false); err != nil {
			t.Fatal(err)
		}
	}
	prints := func(text string) {
		t.Helper()
		for i, file := range files {
			out, err := exec.CommandContext(t.Context(), file).CombinedOutput()
			if want := projects[i].Name + " " + text; err != nil || string(out) != want {
				t.Errorf("%s prints %q, %v; want %q", file, out, err, want)
			}
		}
	}
	build()
	prints("one")
	t.Run("WithoutChange", func(t *testing.T) {
		beforeBuild(t, "exit 1")
		build()
		prints("one")
	})

	write(t, shared, "package shared\n\nconst Text = `two`\n")
	build()
	prints("two")

	first, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	write(t, files[1], string(first))
	build()
	prints("two")

	inputs := compile(t.Context(), projects, nil)
	t.Setenv("GOFLAGS", "-ldflags=-s")
	if changed := compile(t.Context(), projects, nil); changed[0] == inputs[0] {
		t.Error("a change of GOFLAGS is none of the inputs")
	}
	if changed := compile(t.Context(), projects, []string{"-ldflags=-w"}); changed[0] == inputs[0] {
		t.Error("a change of the flags is none of the inputs")
	}
}

// While a program is built, its source changes, and changes back afterwards: the program is not taken for one of the first
// source.
func TestSourceChangesDuringBuild(t *testing.T) {
	useOwnCache(t)
	projects, shared := workspace(t)
	build := func(t *testing.T) string {
		t.Helper()
		files, err := buildAll(t.Context(), projects, false)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), files[0]).CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	t.Run("Change", func(t *testing.T) {
		beforeBuild(t, "echo 'package shared; const Text = `other`' >"+shared)
		if out := build(t); out != "first other" {
			t.Fatalf("the program prints %q, so that the source did not change while it was built", out)
		}
	})
	write(t, shared, "package shared\n\nconst Text = `one`\n")
	if out := build(t); out != "first one" {
		t.Errorf("the program prints %q, want that of the source", out)
	}
}

// An error of the go command names the operator.
func TestBuildError(t *testing.T) {
	t.Parallel()
	p := &Project{Name: "widget", Dir: t.TempDir(), Package: "."}
	write(t, filepath.Join(p.Dir, "go.mod"), "")
	write(t, filepath.Join(p.Dir, "main.go"), "package main\n\nfunc main() {}\n")
	_, err := p.Build(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "building operator widget: ") || !strings.Contains(err.Error(), "go.mod") {
		t.Errorf("%v, want the name of the operator and of the file", err)
	}
}
