package oci

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Write writes an image, or an index for several architectures, into a folder in the OCI layout, and into an archive beside
// it with the suffix .tar. Old content is replaced when everything is written.
func Write(image partial.WithRawManifest, ref, into string) error {
	unfinished := into + ".partial"
	defer func() { _ = os.RemoveAll(unfinished) }()
	if err := writeLayout(image, unfinished, map[string]string{refName: ref}); err != nil {
		return err
	}
	if err := Archive(unfinished, into+".tar"); err != nil {
		return err
	}
	if err := os.RemoveAll(into); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	if err := os.Rename(unfinished, into); err != nil {
		return fmt.Errorf("putting the image in place: %w", err)
	}
	return nil
}

// WriteArchive writes an image into an archive alone. It has a name for each set of annotations.
func WriteArchive(image v1.Image, file string, names ...map[string]string) error {
	unfinished := file + ".layout"
	defer func() { _ = os.RemoveAll(unfinished) }()
	if err := writeLayout(image, unfinished, names...); err != nil {
		return err
	}
	return Archive(unfinished, file)
}

// refName is the annotation with the name of an image.
const refName = "org.opencontainers.image.ref.name"

// writeLayout writes an image, or an index, into a folder, once for each set of annotations.
func writeLayout(image partial.WithRawManifest, dir string, names ...map[string]string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	folder, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	for _, annotations := range names {
		name := layout.WithAnnotations(annotations)
		switch image := image.(type) {
		case v1.ImageIndex:
			err = folder.AppendIndex(image, name)
		case v1.Image:
			err = folder.AppendImage(image, name)
		default:
			err = fmt.Errorf("%T is no image", image)
		}
		if err != nil {
			return fmt.Errorf("writing the image: %w", err)
		}
	}
	return nil
}

// Archive packs a folder, in the order of the names, without times and owners.
func Archive(dir, file string) (err error) {
	unfinished := file + ".partial"
	out, err := os.Create(unfinished)
	if err != nil {
		return fmt.Errorf("making the archive: %w", err)
	}
	defer func() { _ = os.Remove(unfinished) }()
	defer func() { _ = out.Close() }()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return addFile(w, dir, path)
	})
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = out.Close()
	}
	if err == nil {
		err = os.Rename(unfinished, file)
	}
	if err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

func addFile(w *tar.Writer, dir, path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	relative, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(relative), Mode: 0o644, Size: info.Size()}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}

// Read returns the image in a folder that Write has written: a [v1.Image] or a [v1.ImageIndex].
func Read(folder string) (remote.Taggable, error) {
	all, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, fmt.Errorf("reading the layout %s: %w", folder, err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading the layout %s: %w", folder, err)
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("the layout %s has %d images, not one", folder, len(manifest.Manifests))
	}
	only := manifest.Manifests[0]
	var image remote.Taggable
	if only.MediaType.IsIndex() {
		image, err = all.ImageIndex(only.Digest)
	} else {
		image, err = all.Image(only.Digest)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the image in %s: %w", folder, err)
	}
	return image, nil
}

// ReadArchive returns the image, for one architecture, of an archive that WriteArchive has written. It unpacks the archive
// into a folder, whose content it replaces, and from which the layers of the image are read.
func ReadArchive(file, into string) (v1.Image, error) {
	if err := unpack(file, into); err != nil {
		return nil, fmt.Errorf("reading the archive %s: %w", file, err)
	}
	all, err := layout.ImageIndexFromPath(into)
	if err != nil {
		return nil, fmt.Errorf("reading the layout of %s: %w", file, err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading the layout of %s: %w", file, err)
	}
	if len(manifest.Manifests) == 0 { // an image has an entry for each of its names
		return nil, fmt.Errorf("the archive %s has no image", file)
	}
	image, err := all.Image(manifest.Manifests[0].Digest)
	if err != nil {
		return nil, fmt.Errorf("reading the image of %s: %w", file, err)
	}
	return image, nil
}

// unpack unpacks the files of an archive. Their names must not lead out of the folder.
func unpack(file, into string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := errors.Join(os.RemoveAll(into), os.MkdirAll(into, 0o755)); err != nil {
		return err
	}
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for r := tar.NewReader(in); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackFile(root, header.Name, r); err != nil {
			return err
		}
	}
}

func unpackFile(root *os.Root, name string, content io.Reader) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	out, err := root.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return errors.Join(err, out.Close())
}

// Push pushes an image to a registry, with the credentials stored by docker login or podman login, and returns the name of
// the repository.
func Push(ctx context.Context, image remote.Taggable, to string) (string, error) {
	ref, err := name.NewTag(to)
	if err != nil {
		return "", fmt.Errorf("%q cannot be the name of an image: %w", to, err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	switch image := image.(type) {
	case v1.ImageIndex:
		err = remote.WriteIndex(ref, image, options...)
	case v1.Image:
		err = remote.Write(ref, image, options...)
	default:
		err = fmt.Errorf("%T is no image", image)
	}
	if err != nil {
		return "", fmt.Errorf("pushing %s: %w", to, err)
	}
	return ref.Context().Name(), nil
}
