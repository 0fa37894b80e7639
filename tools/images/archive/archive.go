// Package archive reads the archives that `make images` and `make images-base` write, for programs that load them into the
// image store of a node. It needs no registry.
//
//	images, err := archive.List("build/images", "build/images-base")
//	for _, image := range images {
//		err := image.Copy(stdin, names(image)...) // of: ctr --namespace k8s.io images import -
//	}
//
// The operators' images have the names NAME:VERSION, and their manifests name other ones. So the caller chooses the names.
package archive

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/distribution/reference"
)

// An Image is an archive in the OCI layout with one image, which may be an index for several architectures.
type Image struct {
	File   string
	Names  []string // such as postgres:15, in the order of the archive
	Digest string   // of the manifest or the index
}

// Annotations of a descriptor in index.json.
const (
	refName  = "org.opencontainers.image.ref.name"
	fullName = "io.containerd.image.name" // containerd and Docker prefer it
)

const indexFile = "index.json"

// index is the content of index.json.
type index struct {
	Manifests []map[string]json.RawMessage `json:"manifests"`
}

// List returns the images of the archives in folders, in the order of the folders and of the file names. A file *.tar that
// is no such archive is an error. It reads no layers.
func List(folders ...string) ([]Image, error) {
	var all []Image
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.tar"))
		if err != nil {
			return nil, fmt.Errorf("looking for images: %w", err)
		}
		for _, file := range files {
			image, err := Read(file)
			if err != nil {
				return nil, err
			}
			all = append(all, image)
		}
	}
	return all, nil
}

// Read returns the image of an archive. It reads no layers.
func Read(file string) (Image, error) {
	f, err := os.Open(file)
	if err != nil {
		return Image{}, fmt.Errorf("reading an image: %w", err)
	}
	defer func() { _ = f.Close() }()
	r := tar.NewReader(f)
	header, err := r.Next()
	for err == nil && header.Name != indexFile {
		header, err = r.Next()
	}
	image := Image{File: file}
	if errors.Is(err, io.EOF) {
		err = errors.New("it has no " + indexFile)
	} else if err == nil {
		image.Names, image.Digest, err = parse(r)
	}
	if err != nil {
		return Image{}, fmt.Errorf("reading the image %s: %w", file, err)
	}
	return image, nil
}

// parse returns the names and the digest in index.json.
func parse(content io.Reader) (names []string, digest string, err error) {
	var parsed struct {
		Manifests []struct {
			Digest      string            `json:"digest"`
			Annotations map[string]string `json:"annotations"`
		} `json:"manifests"`
	}
	if err := json.NewDecoder(content).Decode(&parsed); err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", indexFile, err)
	}
	for _, m := range parsed.Manifests {
		if digest = cmp.Or(digest, m.Digest); m.Digest != digest {
			return nil, "", errors.New("it has several images")
		}
		if name := m.Annotations[refName]; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if digest == "" {
		return nil, "", errors.New("it has no image")
	}
	return names, digest, nil
}

// Annotations returns the annotations of an image with a name. The name may be short: it is completed as Docker and
// Kubernetes do it.
func Annotations(name string) (map[string]string, error) {
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return nil, fmt.Errorf("%q cannot be the name of an image: %w", name, err)
	}
	return map[string]string{refName: name, fullName: named.String()}, nil
}

// Copy writes the archive with other names, or with those that it has if there are none, in the form that image stores
// expect. The digest stays.
func (i Image) Copy(w io.Writer, names ...string) error {
	if len(names) == 0 {
		names = i.Names
	}
	f, err := os.Open(i.File)
	if err != nil {
		return fmt.Errorf("copying an image: %w", err)
	}
	defer func() { _ = f.Close() }()
	out := tar.NewWriter(w)
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var content io.Reader = r
		if err == nil && header.Name == indexFile {
			header.Size, content, err = rename(r, names)
		}
		if err == nil {
			err = out.WriteHeader(header)
		}
		if err == nil {
			_, err = io.Copy(out, content)
		}
		if err != nil {
			return fmt.Errorf("copying the image %s: %w", i.File, err)
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("copying the image %s: %w", i.File, err)
	}
	return nil
}

// rename returns the size and the content of index.json with other names.
func rename(r io.Reader, names []string) (int64, io.Reader, error) {
	var before index
	if err := json.NewDecoder(r).Decode(&before); err != nil {
		return 0, nil, fmt.Errorf("reading %s: %w", indexFile, err)
	}
	if len(before.Manifests) == 0 {
		return 0, nil, errors.New("it has no image")
	}
	after := map[string]any{"schemaVersion": 2}
	var manifests []map[string]json.RawMessage
	for _, name := range names {
		annotations, err := Annotations(name)
		if err != nil {
			return 0, nil, err
		}
		manifest := maps.Clone(before.Manifests[0])
		if manifest["annotations"], err = json.Marshal(annotations); err != nil {
			return 0, nil, err
		}
		manifests = append(manifests, manifest)
	}
	after["manifests"] = manifests
	data, err := json.Marshal(after)
	return int64(len(data)), bytes.NewReader(data), err
}
