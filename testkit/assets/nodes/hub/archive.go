//go:build linux

package hub

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A section is content within a file.
type section struct {
	file         string
	offset, size int64
}

// open returns the content.
func (s section) open() (io.ReadCloser, error) {
	file, err := os.Open(s.file)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(file, s.offset, s.size), file}, nil
}

func (s section) read() ([]byte, error) {
	content, err := s.open()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(content)
	return data, errors.Join(err, content.Close())
}

// imageName is the annotation with the name of an image.
const imageName = "org.opencontainers.image.ref.name"

// An archive has the images of a file: a tar archive of an OCI layout. Nothing is copied, so opening it takes milliseconds.
type archive struct {
	images []archivedImage
	blobs  map[v1.Hash]section
}

// An archivedImage is the manifest of an image.
type archivedImage struct {
	name      string // with the tag
	part      bool   // it belongs to the image with the name, and has only a digest
	digest    v1.Hash
	mediaType types.MediaType
	manifest  []byte
}

func openArchive(file string) (*archive, error) {
	a := &archive{blobs: map[v1.Hash]section{}}
	index, err := a.readEntries(file)
	if err == nil {
		err = a.addIndex(index, "")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the images in %s: %w", file, err)
	}
	return a, nil
}

// addIndex adds the images of an index. Those of an index in it, one for each platform, come before it and belong to it.
func (a *archive) addIndex(data []byte, whole string) error {
	index, err := v1.ParseIndexManifest(bytes.NewReader(data))
	if err != nil {
		return err
	}
	for _, d := range index.Manifests {
		blob, ok := a.blobs[d.Digest]
		if !ok {
			return fmt.Errorf("%s is missing", d.Digest)
		}
		manifest, err := blob.read()
		if err != nil {
			return err
		}
		name := cmp.Or(d.Annotations[imageName], whole)
		if d.MediaType.IsIndex() {
			if err := a.addIndex(manifest, name); err != nil {
				return err
			}
		}
		a.images = append(a.images, archivedImage{
			name: name, part: whole != "", digest: d.Digest, mediaType: d.MediaType, manifest: manifest,
		})
	}
	return nil
}

// readEntries finds the content of the archive, and returns the index.
func (a *archive) readEntries(file string) (index []byte, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && index == nil:
			return nil, errors.New("it has no index.json: it is not an OCI layout")
		case errors.Is(err, io.EOF):
			return index, nil
		case err != nil:
			return nil, err
		}
		offset, err := f.Seek(0, io.SeekCurrent) // the reader has read the header only
		if err != nil {
			return nil, err
		}
		s := section{file: file, offset: offset, size: header.Size}
		name := strings.Split(path.Clean(header.Name), "/")
		const depth = 3 // blobs/sha256/DIGEST
		switch {
		case len(name) == 1 && name[0] == "index.json":
			if index, err = s.read(); err != nil {
				return nil, err
			}
		case len(name) == depth && name[0] == "blobs":
			a.blobs[v1.Hash{Algorithm: name[1], Hex: name[2]}] = s
		}
	}
}

// archives returns the archives in a folder.
func archives(dir string) ([]*archive, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return nil, fmt.Errorf("finding images: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("finding images: %s has no file *.tar", dir)
	}
	var all []*archive
	for _, file := range files {
		a, err := openArchive(file)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}
