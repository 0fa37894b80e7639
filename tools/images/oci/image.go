// Package oci makes images of files, and keeps them in folders, archives and registries. The same files make the same image:
// nothing in it has a time, an owner or an order that comes from the machine.
package oci

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A File is one in an image.
type File struct {
	Name string // with all folders
	Mode int64
	Data []byte
}

// Layer has files in the given order, each after the folders that it is in.
func Layer(files ...File) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	folders := map[string]bool{}
	for _, file := range files {
		name := strings.TrimPrefix(file.Name, "/")
		var above []string
		for dir := path.Dir(name); dir != "." && !folders[dir]; dir = path.Dir(dir) {
			above, folders[dir] = append(above, dir), true
		}
		slices.Reverse(above)
		for _, dir := range above {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
				return nil, fmt.Errorf("writing a layer: %w", err)
			}
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: file.Mode, Size: int64(len(file.Data))}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("writing a layer: %w", err)
		}
		if _, err := w.Write(file.Data); err != nil {
			return nil, fmt.Errorf("writing a layer: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("writing a layer: %w", err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("compressing a layer: %w", err)
	}
	return l, nil
}

// Image makes an image of layers, for Linux.
func Image(arch string, config v1.Config, layers ...v1.Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(image, layers...)
	if err != nil {
		return nil, fmt.Errorf("adding the layers: %w", err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", arch, config
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return image, nil
}
