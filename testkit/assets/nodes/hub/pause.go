//go:build linux

package hub

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/image"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// addPause adds the image of the first process of each pod.
func (h *hub) addPause(handler http.Handler, b *blobs) error {
	pause, err := image.FromProgram(filepath.Join(h.Programs, spec.Pause))
	if err != nil {
		return err
	}
	if err := b.putImage(pause); err != nil {
		return fmt.Errorf("adding image %s: %w", spec.PauseImage, err)
	}
	manifest, err := pause.RawManifest()
	if err != nil {
		return fmt.Errorf("adding image %s: %w", spec.PauseImage, err)
	}
	mediaType, err := pause.MediaType()
	if err != nil {
		return fmt.Errorf("adding image %s: %w", spec.PauseImage, err)
	}
	return putManifest(handler, archivedImage{name: spec.PauseImage, mediaType: mediaType, manifest: manifest})
}

// putImage adds the layers and the configuration of an image.
func (b *blobs) putImage(i v1.Image) error {
	config, err := i.RawConfigFile()
	if err != nil {
		return err
	}
	digest, err := i.ConfigName()
	if err != nil {
		return err
	}
	const repository = "" // does not matter
	if err := b.Put(context.Background(), repository, digest, io.NopCloser(bytes.NewReader(config))); err != nil {
		return err
	}
	layers, err := i.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return err
		}
		content, err := layer.Compressed() // as it is: see package image
		if err != nil {
			return err
		}
		if err := b.Put(context.Background(), repository, digest, content); err != nil {
			return err
		}
	}
	return nil
}
