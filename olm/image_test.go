package olm_test

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"sigs.k8s.io/yaml"

	"github.com/homeostat-dev/homeostat/olm"
)

// The image of a bundle has the files of its folder and the labels of its metadata.
func TestBundleImage(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob("../bundle/*/bundle.Dockerfile")
	if err != nil || len(dirs) < 5 {
		t.Fatalf("there are the bundles %v, %v", dirs, err)
	}
	for _, file := range dirs {
		dir := filepath.Dir(file)
		image, err := olm.BundleImage(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		for _, folder := range []string{"manifests", "metadata", "tests"} {
			walk(t, want, filepath.Join(dir, folder), folder)
		}
		if diff := cmp.Diff(want, contents(t, image)); diff != "" {
			t.Errorf("the image of %s, -files +image:\n%s", dir, diff)
		}
		var metadata struct {
			Annotations map[string]string `json:"annotations"`
		}
		data, err := os.ReadFile(filepath.Join(dir, "metadata", "annotations.yaml"))
		if err := errors.Join(err, yaml.Unmarshal(data, &metadata)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(metadata.Annotations, labels(t, image)); diff != "" {
			t.Errorf("the labels of the image of %s, -metadata +image:\n%s", dir, diff)
		}
	}
}

// The image of the catalog has the catalog in the folder that its label names.
func TestCatalogImage(t *testing.T) {
	t.Parallel()
	image, err := olm.CatalogImage("catalog")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	walk(t, want, "catalog", "configs")
	if diff := cmp.Diff(want, contents(t, image)); diff != "" {
		t.Errorf("-files +image:\n%s", diff)
	}
	label := map[string]string{"operators.operatorframework.io.index.configs.v1": "/configs"}
	if diff := cmp.Diff(label, labels(t, image)); diff != "" {
		t.Errorf("labels: -want +got:\n%s", diff)
	}
}

// Two copies of a bundle with different file times and modes give the same image.
func TestImagesAreReproducible(t *testing.T) {
	t.Parallel()
	copied := filepath.Join(t.TempDir(), "bundle")
	if err := os.CopyFS(copied, os.DirFS("../bundle/database")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(copied, func(file string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chmod(file, 0o700))
	})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := digest(t, "../bundle/database"), digest(t, copied); a != b {
		t.Errorf("%s and %s", a, b)
	}
	csv := filepath.Join(copied, "manifests", "database-operator.clusterserviceversion.yaml")
	if err := os.WriteFile(csv, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, b := digest(t, "../bundle/database"), digest(t, copied); a == b {
		t.Error("another bundle is the same image")
	}
}

// A folder that is not a bundle or a catalog is rejected with a message that names the cause.
func TestImageErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ dockerfile, want string }{
		"no way to make it":       {"", "reading how an image is made"},
		"another instruction":     {"FROM scratch\nRUN rm /\n", `bundle.Dockerfile:2: "RUN rm /": an image without a program has`},
		"another image below":     {"FROM busybox\n", `bundle.Dockerfile:1: "FROM busybox"`},
		"no content":              {"FROM scratch\nLABEL a=b\n", "labels or copies nothing"},
		"a folder that is absent": {"FROM scratch\nLABEL a=b\nCOPY manifests /manifests/\n", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.dockerfile != "" {
				if err := os.WriteFile(filepath.Join(dir, "bundle.Dockerfile"), []byte(c.dockerfile), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := olm.BundleImage(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := olm.CatalogImage(t.TempDir()); err == nil || !strings.Contains(err.Error(), "there is no catalog in") {
		t.Error(err)
	}
}

// Relocate changes the prefix in the names of the bundles' images only.
func TestRelocate(t *testing.T) {
	t.Parallel()
	catalog, err := olm.Render(t.Context(), "templates/database.yaml", find, olm.Published)
	if err != nil {
		t.Fatal(err)
	}
	olm.Relocate(catalog, "registry.example.com/team/")
	for _, b := range catalog.Bundles {
		images := map[string]bool{b.Image: true}
		for _, r := range b.RelatedImages {
			images[r.Image] = true
		}
		bundles, others := 0, 0
		for image := range images {
			switch {
			case strings.HasPrefix(image, "registry.example.com/team/database-bundle:v"):
				bundles++
			case strings.HasPrefix(image, "homeostat/database@"):
				others++
			}
		}
		if bundles != 1 || others != 1 || len(images) != 2 {
			t.Errorf("%s names %v", b.Name, images)
		}
	}
}

func digest(t *testing.T, dir string) v1.Hash {
	t.Helper()
	image, err := olm.BundleImage(dir)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func labels(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return file.Config.Labels
}

// walk reads all files of a folder.
func walk(t *testing.T, into map[string]string, dir, as string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		into[filepath.Join(as, strings.TrimPrefix(file, dir))] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// contents returns the files of an image.
func contents(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	r := mutate.Extract(image)
	defer func() { _ = r.Close() }()
	all := map[string]string{}
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.IsZero() && header.ModTime.Unix() != 0 || header.Uid != 0 {
			t.Errorf("%s has the time %v and the owner %d", header.Name, header.ModTime, header.Uid)
		}
		if header.Typeflag == tar.TypeReg {
			data, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			all[header.Name] = string(data)
		}
	}
}
