// Package image makes images of static programs.
package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user has no rights, as the user of the images of operators.
const user = "65532:65532"

// FromProgram returns an image with a static program in its root folder, which is what a container of it runs. Nothing is
// compressed.
func FromProgram(file string, data []byte) (v1.Image, error) {
	const mode, headers = 0o755, 4 << 10
	var layer bytes.Buffer
	layer.Grow(len(data) + headers)
	w := tar.NewWriter(&layer)
	err := w.WriteHeader(&tar.Header{Name: file, Mode: mode, Size: int64(len(data)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = w.Write(data)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("making an image of %s: %w", file, err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, static.NewLayer(layer.Bytes(), types.OCIUncompressedLayer))
	if err != nil {
		return nil, fmt.Errorf("making an image of %s: %w", file, err)
	}
	image, err = mutate.Config(image, v1.Config{Entrypoint: []string{"/" + file}, User: user})
	if err != nil {
		return nil, fmt.Errorf("making an image of %s: %w", file, err)
	}
	return image, nil
}
