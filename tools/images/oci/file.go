package oci

import (
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// LayerFile returns the layer in a file, which is a tar archive and stays uncompressed. The file must not change while the
// layer is used.
func LayerFile(file string) (v1.Layer, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading a layer: %w", err)
	}
	defer func() { _ = f.Close() }()
	digest, size, err := v1.SHA256(f)
	if err != nil {
		return nil, fmt.Errorf("reading a layer: %w", err)
	}
	return layerFile{file: file, digest: digest, size: size}, nil
}

// A layerFile implements [v1.Layer].
type layerFile struct {
	file   string
	digest v1.Hash
	size   int64
}

func (l layerFile) Digest() (v1.Hash, error)             { return l.digest, nil }
func (l layerFile) DiffID() (v1.Hash, error)             { return l.digest, nil }
func (l layerFile) Compressed() (io.ReadCloser, error)   { return os.Open(l.file) }
func (l layerFile) Uncompressed() (io.ReadCloser, error) { return os.Open(l.file) }
func (l layerFile) Size() (int64, error)                 { return l.size, nil }
func (layerFile) MediaType() (types.MediaType, error)    { return types.OCIUncompressedLayer, nil }
