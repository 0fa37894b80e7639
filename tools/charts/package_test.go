package main

import (
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
)

func TestPackage(t *testing.T) {
	eachChart(t, func(t *testing.T, dir string) {
		folder := filepath.Join(t.TempDir(), "new", "folder")
		var out strings.Builder
		if err := run([]string{"package", "-version", "1.2.3", "-o", folder, dir}, &out); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(folder, filepath.Base(dir)+"-1.2.3.tgz")
		if out.String() != file+"\n" {
			t.Errorf("it prints %q, want %s", out.String(), file)
		}
		c, err := loader.LoadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := render(t, c, "default")
		if err != nil {
			t.Fatal(err)
		}
		image, _ := container(find(t, objects, "Deployment"))["image"].(string)
		if !strings.HasSuffix(image, ":1.2.3") {
			t.Errorf("the archive installs the image %s", image)
		}
	})
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		nil,
		{"install"},
		{"generate"},
		{"package", operators},
		{"package", "-o", t.TempDir()},
		{"package", "-x", operators},
		{"push", operators},
		{"push", "-to", "registry/"},
	} {
		if err := run(args, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "usage: ") {
			t.Errorf("charts %v: error %v, want its usage", args, err)
		}
	}
	if err := run([]string{"package", "-o", t.TempDir(), t.TempDir()}, &strings.Builder{}); err == nil {
		t.Error("a folder without a chart is packaged")
	}
}
