package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tools is this repository, which has the programs that build a release.
const tools = "../.."

// A fixture is a small repository: an SDK of one function, and an operator that imports it and does nothing, with the config
// and the chart of a real one, but without a kind of its own.
type fixture struct {
	t    *testing.T
	root string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, root: filepath.Join(t.TempDir(), "repository")}
	images := filepath.Join(tools, "tools", "images", "testdata")
	operator := filepath.Join("operators", "configrollout")
	for from, to := range map[string]string{
		filepath.Join(images, "sdk"):                             "sdk",
		filepath.Join(images, "operators", "tiny", "cmd"):        filepath.Join(operator, "cmd"),
		filepath.Join(tools, operator, "config"):                 filepath.Join(operator, "config"),
		filepath.Join(tools, operator, "chart"):                  filepath.Join(operator, "chart"),
		filepath.Join(tools, "olm", "install"):                   filepath.Join("olm", "install"),
		filepath.Join(tools, "olm", "released", "configrollout"): filepath.Join("olm", "released", "configrollout"),
	} {
		if err := os.CopyFS(filepath.Join(f.root, to), os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	module := f.read(filepath.Join(images, "operators", "tiny", "go.mod"))
	f.write("operators/configrollout/go.mod", strings.ReplaceAll(module, "operators/tiny", "operators/configrollout"))
	f.write("operators/configrollout/about.go", "// Package configrollout is what others import.\npackage configrollout\n\n"+
		"import \"github.com/homeostat-dev/homeostat/sdk/program\"\n\n// Version is that of the SDK.\n"+
		"func Version() string { return program.Version() }\n")
	f.write("olm/templates/configrollout.yaml", f.read(filepath.Join(tools, "olm", "templates", "configrollout.yaml")))
	f.write("LICENSE", f.read(filepath.Join(tools, "LICENSE")))
	f.write("CHANGELOG.md", "# Changelog\n\n## [0.2.0] - 2026-11-23\n\nIt is there.\n")
	f.write("bundle/images.txt", "homeostat/configrollout@sha256:0\n")
	f.git("init", "--quiet")
	f.commit()
	return f
}

func (f *fixture) read(file string) string {
	f.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(data)
}

// write writes a file below the root.
func (f *fixture) write(name, text string) {
	f.t.Helper()
	file := filepath.Join(f.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
		f.t.Fatal(err)
	}
}

// move moves a folder below the root.
func (f *fixture) move(from, to string) {
	f.t.Helper()
	if err := os.Rename(filepath.Join(f.root, from), filepath.Join(f.root, to)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) git(args ...string) string {
	f.t.Helper()
	who := []string{"-c", "user.name=Tester", "-c", "user.email=tester@example.com", "-c", "commit.gpgsign=false"}
	out, err := command{dir: f.root}.run(f.t.Context(), "git", append(who, args...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *fixture) commit() {
	f.t.Helper()
	f.git("add", "--all")
	f.git("commit", "--quiet", "--message", "Change it")
}

// program runs a program of this repository, as make does.
func (f *fixture) program(module, pkg string, args ...string) string {
	f.t.Helper()
	at := command{dir: filepath.Join(tools, module), env: []string{"GOWORK=off"}}
	out, err := at.run(f.t.Context(), "go", append([]string{"run", pkg}, args...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// withBundle writes the operator's image to bundle/images.txt, and renders the bundle that runs it.
func (f *fixture) withBundle(version string) {
	f.t.Helper()
	operator, images := filepath.Join(f.root, "operators", "configrollout"), filepath.Join(f.root, "bundle", "images.txt")
	out := f.program("tools/images", ".", "build", "-o", f.t.TempDir(), "-version", version, operator)
	f.write("bundle/images.txt", out+"\n")
	f.program("bundle", "./cmd/bundle", "render", "-o", filepath.Join(f.root, "bundle"), "-images", images, operator)
	f.commit()
}

// rehearse runs a rehearsal of version 0.2.0, with further arguments.
func (f *fixture) rehearse(folder string, more ...string) (printed string, err error) {
	f.t.Helper()
	var out strings.Builder
	err = run(f.t.Context(), append([]string{
		"rehearse", "-o", folder, "-root", f.root, "-tools", tools, "-version", "0.2.0",
		"-modules", "operators/configrollout sdk", "-operators", "operators/configrollout",
	}, more...), &out)
	return out.String(), err
}
