package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/homeostat-dev/homeostat/tools/images/deb"
	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// Each image that a sample of an operator names is in the table.
func TestSamples(t *testing.T) {
	t.Parallel()
	var known []string
	for _, image := range baseImages {
		for _, tag := range image.tags {
			known = append(known, image.name+":"+tag)
		}
	}
	files, err := fs.Glob(os.DirFS(root), "operators/*/config/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no samples", err)
	}
	named := regexp.MustCompile(`(?m)^ *image: (\S+)$`)
	database := regexp.MustCompile(`(?m)^  engine: (\S+)\n  version: "(\S+)"$`)
	found := 0
	for _, file := range files {
		text := readFile(t, filepath.Join(root, file))
		var images []string
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			images = append(images, m[1])
		}
		for _, m := range database.FindAllStringSubmatch(text, -1) {
			images = append(images, strings.Replace(m[1], "postgresql", "postgres", 1)+":"+m[2])
		}
		for _, image := range images {
			found++
			if image != "exporter:1" && !slices.Contains(known, image) { // an image that no registry has
				t.Errorf("%s names %s, and the table has %q", file, image, known)
			}
		}
	}
	if found < 9 {
		t.Errorf("the samples name %d images", found)
	}
}

// The list says which names are those of other versions. A version that is not Debian 12's is an error.
func TestDescribe(t *testing.T) {
	t.Parallel()
	packages := []deb.Package{{Name: "a", Version: "1:2.10.3-1", File: "a_1%3a2.10.3-1_amd64.deb"}, {Name: "b", Version: "7-1"}}
	image := func(tags ...string) baseImage { return baseImage{name: "i", packages: []string{"a"}, tags: tags} }
	got, err := image("2.10", "2-slim", "2.1", "latest").describe(packages, "program")
	if err != nil || !slices.Equal(got.Names, []string{"i:2.10", "i:2-slim", "i:2.1", "i:latest"}) ||
		!slices.Equal(got.StandsFor, []string{"i:2.1", "i:latest"}) || got.Version != "2.10.3" || got.File != "i.tar" {
		t.Errorf("%+v, %v", got, err)
	}
	same, err := image("2.10").describe(packages, "program")
	if err != nil || same.Key != got.Key {
		t.Errorf("the keys %s and %s of one state differ, %v", got.Key, same.Key, err)
	}
	for name, other := range map[string]func() (listed, error){
		"program": func() (listed, error) { return image("2").describe(packages, "another") },
		"package": func() (listed, error) { return image("2").describe(packages[:1], "program") },
	} {
		if l, err := other(); err != nil || l.Key == got.Key {
			t.Errorf("another %s has the same key, %v", name, err)
		}
	}
	for want, tags := range map[string][]string{
		"those of Debian 12 with i:3, and apt has version 2.10.3": {"3", "2"},
		"put the tag 2 before": {"2.10", "3", "2"},
	} {
		if _, err := image(tags...).describe(packages, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// An image is built again if its file is not as it was written. A list that cannot be read is an error.
func TestReadList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if l, err := readList(dir); err != nil || len(l.Images) > 0 {
		t.Errorf("%v, %v in an empty folder", l, err)
	}
	want := list{State: "s"}
	for _, name := range []string{"a", "resized", "other", "missing"} {
		want.Images = append(want.Images, writeEmpty(t, dir, name+".tar"))
	}
	want.Images[1].Bytes++
	want.Images[2].Digest = "sha256:other"
	if err := errors.Join(os.Remove(filepath.Join(dir, "missing.tar")), want.write(dir)); err != nil {
		t.Fatal(err)
	}
	l, err := readList(dir)
	if err != nil || len(l.Images) != 1 || l.Images[0].File != "a.tar" || l.isCurrent("s") {
		t.Errorf("%v, %v", l, err)
	}
	if err := os.WriteFile(filepath.Join(dir, listFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readList(dir); err == nil || !strings.Contains(err.Error(), "the list of images") {
		t.Errorf("%v for a list that is none", err)
	}
}

// writeEmpty writes the archive of an image without layers.
func writeEmpty(t *testing.T, dir, name string) listed {
	t.Helper()
	image, err := oci.Image("amd64", v1.Config{})
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := oci.WriteArchive(image, filepath.Join(dir, name), map[string]string{}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return listed{File: name, Bytes: info.Size(), Digest: digest.String()}
}
