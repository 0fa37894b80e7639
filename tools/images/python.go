package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// Contents of the image of a function in Python, as in the Dockerfile of `homeostat new --language python`.
const (
	engine         = "/usr/local/bin/homeostat-engine"
	functionFolder = "/operator"
	declaration    = "operator.yaml"
	function       = "reconcile.py"
)

// buildPython builds the image of a function in Python, for the architecture of this machine: the base image python, the
// engine, the package homeostat and the files of a folder, without its tests. The layers are read from the folder scratch.
func buildPython(ctx context.Context, p project, name, dir, version, scratch string) (v1.Image, error) {
	files, err := pythonFiles(dir)
	if err != nil {
		return nil, err
	}
	python, err := oci.ReadArchive(filepath.Join(p.base, "python.tar"), scratch)
	if err != nil {
		return nil, fmt.Errorf("the base image is missing (make images-base writes it): %w", err)
	}
	binary, err := compilePackage(ctx, "../../sdk", runtime.GOARCH, "off", append(flags(version), "./cmd/homeostat-engine")...)
	if err != nil {
		return nil, err
	}
	program, err := oci.Layer(oci.File{Name: engine, Mode: 0o755, Data: binary})
	if err != nil {
		return nil, err
	}
	own, err := oci.Layer(files...)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(python, program, own)
	if err != nil {
		return nil, fmt.Errorf("adding the layers: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	labels := p.labels(name, version)
	c := config.DeepCopy().Config
	c.User = user
	c.WorkingDir = functionFolder
	c.Cmd = nil
	c.Labels = labels
	c.Entrypoint = []string{path.Base(engine), declaration}
	c.Env = append(c.Env, "PYTHONDONTWRITEBYTECODE=1", "FUNCTION_COMMAND=python3 "+function)
	if image, err = mutate.Config(image, c); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return mutate.Annotations(image, labels).(v1.Image), nil //nolint:forcetypeassert // it returns the type of its argument
}

// pythonFiles returns the declaration and the modules of a folder, without its tests, and the package homeostat.
func pythonFiles(dir string) ([]oci.File, error) {
	var files []oci.File
	add := func(source, folder string) error {
		data, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("reading a file of the function: %w", err)
		}
		files = append(files, oci.File{Name: path.Join(folder, filepath.Base(source)), Mode: 0o644, Data: data})
		return nil
	}
	for _, name := range []string{declaration, function} {
		if err := add(filepath.Join(dir, name), functionFolder); err != nil {
			return nil, err
		}
	}
	for from, to := range map[string]string{dir: functionFolder, "../../sdk/python/homeostat": functionFolder + "/homeostat"} {
		modules, err := filepath.Glob(filepath.Join(from, "*.py"))
		if err != nil {
			return nil, fmt.Errorf("looking for modules: %w", err)
		}
		for _, file := range modules {
			switch name := filepath.Base(file); {
			case name == function, name == "conftest.py", strings.HasPrefix(name, "test_"):
			default:
				if err := add(file, to); err != nil {
					return nil, err
				}
			}
		}
	}
	slices.SortFunc(files, func(a, b oci.File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}
