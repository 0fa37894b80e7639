//go:build linux

package hub

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/image"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// addPause adds the image of the first process of each pod.
func (h *hub) addPause() error {
	data, err := os.ReadFile(filepath.Join(h.Programs, spec.Pause))
	if err != nil {
		return fmt.Errorf("making image %s: %w", spec.PauseImage, err)
	}
	return h.addProgram(spec.PauseImage, spec.Pause, data)
}

// addProgram adds an image with a static program.
func (h *hub) addProgram(name, file string, data []byte) error {
	made, err := image.FromProgram(file, data)
	if err != nil {
		return err
	}
	if err := h.blobs.putImage(made); err != nil {
		return fmt.Errorf("adding image %s: %w", name, err)
	}
	manifest, err := made.RawManifest()
	if err != nil {
		return fmt.Errorf("adding image %s: %w", name, err)
	}
	mediaType, err := made.MediaType()
	if err != nil {
		return fmt.Errorf("adding image %s: %w", name, err)
	}
	return putManifest(h.images, archivedImage{name: name, mediaType: mediaType, manifest: manifest})
}

// handleProgram serves a request with a static program, and makes an image of it: see serve. It reads one program at a time,
// because an image takes twice the memory of its program.
func (h *hub) handleProgram(w http.ResponseWriter, r *http.Request) {
	h.programs.Lock()
	defer h.programs.Unlock()
	var data bytes.Buffer
	data.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead) // reading makes it larger otherwise
	_, err := data.ReadFrom(r.Body)
	if err == nil {
		err = h.addProgram(r.FormValue("image"), r.PathValue("file"), data.Bytes())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
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
