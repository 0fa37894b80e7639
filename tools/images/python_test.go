package main

import (
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/homeostat-dev/homeostat/tools/images/archive"
	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// fakeBase writes a base image that has one file in place of Python.
func fakeBase(t *testing.T) (folder string) {
	t.Helper()
	layer, err := oci.Layer(oci.File{Name: "usr/bin/python3", Mode: 0o755, Data: []byte("python")})
	if err != nil {
		t.Fatal(err)
	}
	image, err := oci.Image(runtime.GOARCH, v1.Config{Cmd: []string{"python3"}, Env: []string{"PATH=/usr/bin"}}, layer)
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	var names []map[string]string
	for _, name := range []string{"python:3.11", "python:3-slim"} {
		annotations, err := archive.Annotations(name)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, annotations)
	}
	if err := oci.WriteArchive(image, filepath.Join(folder, "python.tar"), names...); err != nil {
		t.Fatal(err)
	}
	return folder
}

// The image of a function has Python, the engine, the package and the modules, and what its Dockerfile says.
func TestPython(t *testing.T) {
	t.Parallel()
	dir, folder := t.TempDir(), t.TempDir()
	for _, name := range []string{declaration, function, "names.py", "test_names.py", "conftest.py", "README.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"build", "-o", folder, "-version", "1.2.3", "-name", "shop", "-prefix", "registry.invalid/"}
	args = append(args, "-python", fakeBase(t), dir)
	var first, second strings.Builder
	for _, out := range []*strings.Builder{&first, &second} {
		if err := run(t.Context(), args, out); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.HasPrefix(first.String(), "registry.invalid/shop@sha256:") || first.String() != second.String() {
		t.Errorf("two builds print %q and %q", first.String(), second.String())
	}
	image := imageIn(t, filepath.Join(folder, "shop"))
	checkContent(t, files(t, image))
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	checkDockerfile(t, config.Config)
	if left, err := filepath.Glob(folder + "/*"); err != nil || len(left) != 2 {
		t.Errorf("there are %v, %v", left, err)
	}
}

// imageIn returns the image in a layout.
func imageIn(t *testing.T, folder string) v1.Image {
	t.Helper()
	all, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := all.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func checkContent(t *testing.T, content map[string][]byte) {
	t.Helper()
	for name, want := range map[string]string{
		"usr/bin/python3": "python", "operator/operator.yaml": declaration, "operator/reconcile.py": function,
		"operator/names.py": "names.py",
	} {
		if got := string(content[name]); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(content["operator/homeostat/__init__.py"]) == 0 {
		t.Error("it lacks the package homeostat")
	}
	for name := range content {
		if base := filepath.Base(name); strings.HasPrefix(base, "test_") || base == "conftest.py" || base == "README.md" {
			t.Errorf("it has %s", name)
		}
	}
	checkEngine(t, content["usr/local/bin/homeostat-engine"])
}

func checkEngine(t *testing.T, program []byte) {
	t.Helper()
	f, err := elf.NewFile(strings.NewReader(string(program)))
	if err != nil {
		t.Fatal("the engine:", err)
	}
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the engine needs libraries")
	}
}

// checkDockerfile compares a configuration with the Dockerfile of new projects.
func checkDockerfile(t *testing.T, c v1.Config) {
	t.Helper()
	text := readFile(t, root+"/sdk/cmd/homeostat/scaffold/templates/python/Dockerfile.tmpl")
	name, value, _ := strings.Cut(c.Env[2], "=")
	for _, want := range []string{
		"WORKDIR " + c.WorkingDir + "\n", "USER " + c.User + "\n", "ENV " + c.Env[1] + " " + name + `="` + value + "\"\n",
		`ENTRYPOINT ["` + strings.Join(c.Entrypoint, `", "`) + "\"]\n",
		"COPY --from=engine /homeostat-engine " + filepath.Dir(engine) + "/\n",
		"sdk/python/homeostat " + functionFolder + "/homeostat\n", "COPY " + declaration + " *.py " + functionFolder + "/\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the Dockerfile lacks %q", want)
		}
	}
	if len(c.Cmd) > 0 || c.Env[0] != "PATH=/usr/bin" {
		t.Errorf("the configuration is %+v", c)
	}
}

// Without the base image, or without a function, the message names what is missing.
func TestPythonErrors(t *testing.T) {
	t.Parallel()
	base, empty, undeclared := fakeBase(t), t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(undeclared, function), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"operator.yaml: no such file": {"-python", base, undeclared},
		"no such file or directory":   {"-python", base, empty},
		"make images-base":            {"-python", empty, "../../sdk/python/examples/myapp"},
	} {
		err := run(t.Context(), append([]string{"build", "-o", t.TempDir(), "-name", "shop"}, args...), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
