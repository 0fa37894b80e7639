package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/homeostat-dev/homeostat/tools/images/archive"
	"github.com/homeostat-dev/homeostat/tools/images/deb"
	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// pauseSource is the source of the only program in the image of that name.
//
//go:embed pause/main.go
var pauseSource string

// buildBase writes the base images into a folder, unless they are there, and prints a list of them. Concurrent calls, of
// other processes as well, build one after the other.
func buildBase(ctx context.Context, folder string, out io.Writer) error {
	began := time.Now()
	if runtime.GOOS != "linux" {
		return errors.New("these images are made of Debian packages, on Linux only")
	}
	apt, err := deb.State(ctx)
	if err != nil {
		return err
	}
	program, err := programDigest()
	if err != nil {
		return err
	}
	state := program + " " + apt
	l, err := readList(folder)
	if err != nil {
		return err
	}
	count := 0
	if !l.isCurrent(state) {
		b := &baseBuild{folder: folder, program: program}
		if l, err = b.runLocked(ctx, state); err != nil {
			return err
		}
		count = b.count
	}
	if err := l.print(out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "built %d of %d images in %.1f s\n", count, len(l.Images), time.Since(began).Seconds())
	return err
}

// A baseBuild is one run.
type baseBuild struct {
	folder  string
	program string // digest
	scratch string
	apt     *deb.Apt
	base    []deb.Package
	lower   *deb.Layer // the common packages; nil until an image needs it
	common  v1.Layer
	used    []deb.Package
	count   int
}

// runLocked builds while no other process does.
func (b *baseBuild) runLocked(ctx context.Context, state string) (list, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return list{}, fmt.Errorf("the user's cache folder is unknown (%w); set HOME or XDG_CACHE_HOME", err)
	}
	cache = filepath.Join(cache, "homeostat", "packages")
	if err := errors.Join(os.MkdirAll(cache, 0o755), os.MkdirAll(b.folder, 0o755)); err != nil {
		return list{}, fmt.Errorf("making a folder: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(cache, ".lock"))
	if err != nil {
		return list{}, err
	}
	defer unlock()
	before, err := readList(b.folder)
	if err != nil || before.isCurrent(state) {
		return before, err
	}
	b.scratch = filepath.Join(b.folder, ".partial")
	if err := os.RemoveAll(b.scratch); err != nil { // of a build that was killed
		return list{}, fmt.Errorf("making room: %w", err)
	}
	defer func() { _ = os.RemoveAll(b.scratch) }()
	if b.apt, err = deb.NewApt(cache, b.scratch, assumed); err != nil {
		return list{}, err
	}
	if b.base, err = b.apt.Resolve(ctx, common...); err != nil {
		return list{}, fmt.Errorf("the packages are those of Debian 12 (apt-get update reads their lists): %w", err)
	}
	now := list{State: state}
	for _, image := range baseImages {
		l, err := b.build(ctx, image, before)
		if err != nil {
			return list{}, fmt.Errorf("%s: %w", image.name, err)
		}
		now.Images = append(now.Images, l)
	}
	return now, errors.Join(b.apt.Keep(b.used), now.write(b.folder))
}

// lock waits for the lock of a file.
func lock(ctx context.Context, file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the packages: %w", err)
	}
	locked := make(chan error, 1)
	go func() { locked <- syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }()
	select {
	case err = <-locked:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another build: %w", ctx.Err()) // the process ends
	}
	if err != nil {
		return nil, fmt.Errorf("locking the packages: %w", errors.Join(err, f.Close()))
	}
	return func() { _ = f.Close() }, nil
}

// build builds an image unless the one in the folder has the same packages and comes from this program.
func (b *baseBuild) build(ctx context.Context, image baseImage, before list) (listed, error) {
	var packages []deb.Package
	if len(image.packages) > 0 {
		var err error
		if packages, err = b.apt.Resolve(ctx, image.allPackages()...); err != nil {
			return listed{}, err
		}
		b.used = append(b.used, packages...)
	}
	l, err := image.describe(packages, b.program)
	if err != nil {
		return listed{}, err
	}
	if i := slices.IndexFunc(before.Images, func(i listed) bool { return i.File == l.File && i.Key == l.Key }); i >= 0 {
		return before.Images[i], nil
	}
	b.count++
	if len(packages) > 0 {
		if err := b.apt.Download(ctx, image.allPackages()...); err != nil {
			return listed{}, err
		}
	}
	layers, err := b.layers(ctx, image, packages)
	if err != nil {
		return listed{}, err
	}
	config := image.config
	config.Labels = map[string]string{"org.opencontainers.image.title": image.name}
	if l.Version != "" {
		config.Labels["org.opencontainers.image.version"] = l.Version
	}
	built, err := oci.Image(runtime.GOARCH, config, layers...)
	if err != nil {
		return listed{}, err
	}
	return b.write(built, l)
}

// write writes the archive of an image.
func (b *baseBuild) write(image v1.Image, l listed) (listed, error) {
	var names []map[string]string
	for _, name := range l.Names {
		annotations, err := archive.Annotations(name)
		if err != nil {
			return listed{}, err
		}
		names = append(names, annotations)
	}
	digest, err := image.Digest()
	if err != nil {
		return listed{}, fmt.Errorf("reading the digest: %w", err)
	}
	l.Digest = digest.String()
	file := filepath.Join(b.folder, l.File)
	if err := oci.WriteArchive(image, file, names...); err != nil {
		return listed{}, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return listed{}, fmt.Errorf("reading the size: %w", err)
	}
	l.Bytes = info.Size()
	return l, nil
}
