//go:build linux

package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
)

// serveImages serves the images as a registry, which the nodes ask in place of all others. It accepts more.
func (h *hub) serveImages() error {
	if err := h.newRegistry(filepath.Join(h.Dir, "images")); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(spec.HubAddress, strconv.Itoa(spec.RegistryPort)))
	if err != nil {
		return fmt.Errorf("serving images: %w", err)
	}
	go func() { _ = http.Serve(listener, h.images) }() //nolint:gosec // its clients are the nodes
	return nil
}

// newRegistry makes the registry with the images of the archives. A folder gets what clients write.
func (h *hub) newRegistry(written string) error {
	if err := os.MkdirAll(filepath.Join(written, "sha256"), 0o700); err != nil {
		return fmt.Errorf("making a folder for images: %w", err)
	}
	b := &blobs{written: registry.NewDiskBlobHandler(written), given: map[v1.Hash]section{}}
	handler := registry.New(registry.WithBlobHandler(b), registry.Logger(log.New(io.Discard, "", 0)))
	for _, dir := range h.Images {
		found, err := archives(dir)
		if err != nil {
			return err
		}
		for _, a := range found {
			maps.Copy(b.given, a.blobs)
			for _, image := range a.images {
				if err := putManifest(handler, image); err != nil {
					return err
				}
			}
		}
	}
	h.images = handler
	h.blobs = b
	return h.addPause()
}

// putManifest adds the manifest of an image to a registry that has its layers.
func putManifest(handler http.Handler, image archivedImage) error {
	tag, err := name.NewTag(image.name)
	if err != nil {
		return fmt.Errorf("reading the name of an image: %w", err)
	}
	reference := tag.TagStr()
	if image.part {
		reference = image.digest.String()
	}
	url := fmt.Sprintf("/v2/%s/manifests/%s", tag.RepositoryStr(), reference)
	request := httptest.NewRequestWithContext(context.Background(), http.MethodPut, url, bytes.NewReader(image.manifest))
	request.Header.Set("Content-Type", string(image.mediaType))
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)
	if response.Code != http.StatusCreated {
		return fmt.Errorf("adding image %s: %d %s", image.name, response.Code, response.Body)
	}
	return nil
}

// blobs has the layers of images that were given and of those that were written.
type blobs struct {
	given   map[v1.Hash]section
	written registry.BlobHandler
}

// Get implements [registry.BlobHandler].
func (b *blobs) Get(ctx context.Context, repository string, digest v1.Hash) (io.ReadCloser, error) {
	if s, ok := b.given[digest]; ok {
		return s.open()
	}
	return b.written.Get(ctx, repository, digest)
}

// Stat implements [registry.BlobStatHandler].
func (b *blobs) Stat(ctx context.Context, repository string, digest v1.Hash) (int64, error) {
	if s, ok := b.given[digest]; ok {
		return s.size, nil
	}
	if written, ok := b.written.(registry.BlobStatHandler); ok {
		return written.Stat(ctx, repository, digest)
	}
	return 0, errors.ErrUnsupported
}

// Put implements [registry.BlobPutHandler].
func (b *blobs) Put(ctx context.Context, repository string, digest v1.Hash, content io.ReadCloser) error {
	if written, ok := b.written.(registry.BlobPutHandler); ok {
		return written.Put(ctx, repository, digest, content)
	}
	return errors.ErrUnsupported
}
