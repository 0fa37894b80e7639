package archive_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/homeostat-dev/homeostat/tools/images/archive"
	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// newImage returns an image whose layer is in a file.
func newImage(t *testing.T) v1.Image {
	t.Helper()
	file := filepath.Join(t.TempDir(), "layer")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := tar.NewWriter(f).Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := oci.LayerFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if kind, err := layer.MediaType(); err != nil || kind != types.OCIUncompressedLayer {
		t.Errorf("the layer is %v, %v", kind, err)
	}
	image, err := oci.Image("amd64", v1.Config{Cmd: []string{"x"}}, layer)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func named(t *testing.T, names ...string) (all []map[string]string) {
	t.Helper()
	for _, name := range names {
		annotations, err := archive.Annotations(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, annotations)
	}
	return all
}

// Archives of both kinds are listed, and a copy has other names and the same digest.
func TestList(t *testing.T) {
	t.Parallel()
	image := newImage(t)
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	base, operators := t.TempDir(), t.TempDir()
	if err := oci.WriteArchive(image, filepath.Join(base, "web.tar"), named(t, "web:1", "web:latest")...); err != nil {
		t.Fatal(err)
	}
	if err := oci.Write(image, "tiny:dev", filepath.Join(operators, "tiny")); err != nil {
		t.Fatal(err)
	}
	got, err := archive.List(operators, base)
	want := []archive.Image{
		{File: filepath.Join(operators, "tiny.tar"), Names: []string{"tiny:dev"}, Digest: digest.String()},
		{File: filepath.Join(base, "web.tar"), Names: []string{"web:1", "web:latest"}, Digest: digest.String()},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("%v, -want +got:\n%s", err, diff)
	}
	if left, err := os.ReadDir(base); err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
	checkCopy(t, got[0], nil, []string{"/library/tiny:dev"})
	names := []string{"registry.invalid/team/tiny:1", "other"}
	checkCopy(t, got[0], names, []string{"registry.invalid/team/tiny:1", "/library/other:latest"})
}

// checkCopy copies an image with names, which the image store completes to the names that end with full.
func checkCopy(t *testing.T, image archive.Image, names, full []string) {
	t.Helper()
	var b bytes.Buffer
	if err := image.Copy(&b, names...); err != nil {
		t.Fatal(err)
	}
	if got := fullNames(t, bytes.NewReader(b.Bytes())); !slices.EqualFunc(got, full, strings.HasSuffix) {
		t.Errorf("the image store reads %q, want %q", got, full)
	}
	into := t.TempDir()
	if err := os.WriteFile(filepath.Join(into, "copy.tar"), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if names == nil {
		names = image.Names
	}
	want := []archive.Image{{File: filepath.Join(into, "copy.tar"), Names: names, Digest: image.Digest}}
	got, err := archive.List(into)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

// fullNames returns the names that containerd reads in an archive, and checks that it has all files.
func fullNames(t *testing.T, content io.Reader) (names []string) {
	t.Helper()
	files := 0
	for r := tar.NewReader(content); ; files++ {
		h, err := r.Next()
		if err != nil {
			break
		}
		if h.Name != "index.json" {
			continue
		}
		var index v1.IndexManifest
		if err := json.NewDecoder(r).Decode(&index); err != nil {
			t.Fatal(err)
		}
		for _, m := range index.Manifests {
			names = append(names, m.Annotations["io.containerd.image.name"])
		}
	}
	if files != 5 { // layer, config, manifest, index.json, oci-layout
		t.Errorf("it has %d files", files)
	}
	return names
}

func TestErrors(t *testing.T) {
	t.Parallel()
	image := newImage(t)
	good := filepath.Join(t.TempDir(), "good.tar")
	if err := oci.WriteArchive(image, good, named(t, "a:1")...); err != nil {
		t.Fatal(err)
	}
	err := archive.Image{File: good}.Copy(io.Discard, "Not A Name")
	if err == nil || !strings.Contains(err.Error(), "cannot be the name") {
		t.Errorf("%v for a wrong name", err)
	}
	index := func(text string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&tar.Header{Name: "index.json", Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for want, data := range map[string][]byte{
		"no index.json":      make([]byte, 1024),
		"invalid tar header": bytes.Repeat([]byte("x"), 1024),
		"has no image":       index(`{}`),
		"reading index.json": index(`{`),
		"several images":     index(`{"manifests":[{"digest":"sha256:a"},{"digest":"sha256:b"}]}`),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x.tar"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := archive.List(dir)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "x.tar") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
