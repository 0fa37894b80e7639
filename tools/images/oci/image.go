// Package oci builds images from files, and stores them in folders, archives and registries. Images are reproducible: they
// contain no times, owners or order of the build machine.
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
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A File is a file of an image.
type File struct {
	Name string // with its folders
	Mode int64
	Data []byte
}

// Layer returns a layer with the files in the given order, each after its parent folders.
func Layer(files ...File) (v1.Layer, error) {
	data, err := pack(files)
	if err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("compressing a layer: %w", err)
	}
	return l, nil
}

// UncompressedLayer returns a Layer that is not compressed. It is faster for an image that stays on this machine.
func UncompressedLayer(files ...File) (v1.Layer, error) {
	data, err := pack(files)
	if err != nil {
		return nil, err
	}
	return static.NewLayer(data, types.OCIUncompressedLayer), nil
}

// pack returns a tar archive of the files and their parent folders.
func pack(files []File) ([]byte, error) {
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
	return b.Bytes(), nil
}

// Image builds an image of layers, for Linux.
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
	file.OS = "linux"
	file.Architecture = arch
	file.Config = config
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return image, nil
}
