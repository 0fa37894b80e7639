package main

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// write puts the image into a folder, in the layout of OCI, and the same into an archive beside it, whose name has .tar at
// its end. What was there is replaced when all is written.
func write(index v1.ImageIndex, ref, into string) error {
	partial := into + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	defer func() { _ = os.RemoveAll(partial) }()
	folder, err := layout.Write(partial, empty.Index)
	if err != nil {
		return fmt.Errorf("writing the layout: %w", err)
	}
	err = folder.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": ref}))
	if err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	if err := archive(partial, into+".tar"); err != nil {
		return err
	}
	if err := os.RemoveAll(into); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	if err := os.Rename(partial, into); err != nil {
		return fmt.Errorf("putting the image in place: %w", err)
	}
	return nil
}

// archive packs a folder, in the order of the names, without times and owners.
func archive(dir, file string) (err error) {
	partial := file + ".partial"
	out, err := os.Create(partial)
	if err != nil {
		return fmt.Errorf("making the archive: %w", err)
	}
	defer func() { _ = os.Remove(partial) }()
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
		err = os.Rename(partial, file)
	}
	if err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

func addFile(w *tar.Writer, dir, path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err //nolint:wrapcheck // archive does
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err //nolint:wrapcheck // archive does
	}
	relative, err := filepath.Rel(dir, path)
	if err != nil {
		return err //nolint:wrapcheck // archive does
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(relative), Mode: 0o644, Size: info.Size()}
	if err := w.WriteHeader(header); err != nil {
		return err //nolint:wrapcheck // archive does
	}
	_, err = io.Copy(w, in)
	return err //nolint:wrapcheck // archive does
}

// push gives the image to a registry, with the credentials that docker login or podman login stored, and returns the name of
// the repository.
func push(ctx context.Context, index v1.ImageIndex, to string) (string, error) {
	ref, err := name.NewTag(to)
	if err != nil {
		return "", fmt.Errorf("%q cannot be the name of an image: %w", to, err)
	}
	err = remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return "", fmt.Errorf("pushing %s: %w", to, err)
	}
	return ref.Context().Name(), nil
}
