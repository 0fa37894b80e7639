package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/homeostat-dev/homeostat/tools/images/deb"
	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

// layers returns the layers of an image: the common one, unless it is built alone, and its own.
func (b *baseBuild) layers(ctx context.Context, image baseImage, packages []deb.Package) ([]v1.Layer, error) {
	if image.alone {
		_, layer, err := b.writeLayer(image.name, nil, nil, func(l *deb.Layer) error {
			if len(packages) == 0 {
				return addPause(ctx, l)
			}
			return b.addBusybox(ctx, l, packages)
		})
		return []v1.Layer{layer}, err
	}
	if b.common == nil {
		var err error
		b.lower, b.common, err = b.writeLayer("common", nil, nil, func(l *deb.Layer) error {
			return b.fillFirst(ctx, l, alternatives, b.base)
		})
		if err != nil {
			return nil, err
		}
	}
	own := slices.DeleteFunc(slices.Clone(packages), func(p deb.Package) bool { return slices.Contains(b.base, p) })
	if len(own)+len(b.base) != len(packages) {
		return nil, errors.New("apt selects other versions of the common packages for this image")
	}
	entries := image.entries
	if len(image.users) > 0 {
		entries = slices.Concat(entries, accounts(image.users))
	}
	_, layer, err := b.writeLayer(image.name, b.lower, image.exclude, func(l *deb.Layer) error {
		if err := l.Add(entries...); err != nil {
			return err
		}
		return b.addPackages(ctx, l, own)
	})
	return []v1.Layer{b.common, layer}, err
}

// writeLayer writes a layer into a file.
func (b *baseBuild) writeLayer(
	name string, lower *deb.Layer, exclude []string, fill func(*deb.Layer) error,
) (*deb.Layer, v1.Layer, error) {
	file := filepath.Join(b.scratch, name+".layer")
	f, err := os.Create(file)
	if err != nil {
		return nil, nil, fmt.Errorf("writing a layer: %w", err)
	}
	defer func() { _ = f.Close() }()
	const buffer = 1 << 20
	w := bufio.NewWriterSize(f, buffer)
	l := deb.NewLayer(w, lower, exclude...)
	if err := fill(l); err != nil {
		return nil, nil, err
	}
	if err := errors.Join(l.Close(), w.Flush(), f.Close()); err != nil {
		return nil, nil, fmt.Errorf("writing a layer: %w", err)
	}
	layer, err := oci.LayerFile(file)
	return l, layer, err
}

// fillFirst fills the first layer of an image: with what each system has, more entries, and packages.
func (b *baseBuild) fillFirst(ctx context.Context, l *deb.Layer, more []deb.Entry, packages []deb.Package) error {
	if err := l.Add(slices.Concat(skeleton(), accounts(nil), more)...); err != nil {
		return err
	}
	if err := l.AddAliases(); err != nil {
		return err
	}
	return b.addPackages(ctx, l, packages)
}

func (b *baseBuild) addPackages(ctx context.Context, l *deb.Layer, packages []deb.Package) error {
	for _, p := range packages {
		if err := l.AddPackage(ctx, b.apt.File(p)); err != nil {
			return err
		}
	}
	return nil
}

// accounts returns the files with the users and groups of a Debian system, and more.
func accounts(more []account) []deb.Entry {
	users := bytes.NewBufferString(passwd)
	own := bytes.NewBufferString(groups)
	for _, a := range more {
		fmt.Fprintf(users, "%s:x:%d:%d::%s:/bin/sh\n", a.name, a.id, a.id, a.home)
		fmt.Fprintf(own, "%s:x:%d:\n", a.name, a.id)
	}
	return []deb.Entry{{Path: "etc/passwd", Data: users.String()}, {Path: "etc/group", Data: own.String()}}
}

// addBusybox adds the programs that busybox replaces, as links to it.
func (b *baseBuild) addBusybox(ctx context.Context, l *deb.Layer, packages []deb.Package) error {
	if err := b.fillFirst(ctx, l, nil, packages); err != nil {
		return err
	}
	data, err := deb.ReadFile(ctx, b.apt.File(packages[0]), busybox)
	if err != nil {
		return err
	}
	program := filepath.Join(b.scratch, "busybox")
	if err := os.WriteFile(program, data, 0o755); err != nil {
		return fmt.Errorf("unpacking busybox: %w", err)
	}
	out, err := exec.CommandContext(ctx, program, "--list-full").Output()
	if err != nil {
		return fmt.Errorf("listing the programs of busybox: %w", err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if path.Base(name) == path.Base(busybox) {
			continue
		}
		if err := l.Add(deb.Entry{Path: name, Target: "/" + busybox}); err != nil {
			return err
		}
	}
	return nil
}

// busybox is the path of its program.
const busybox = "usr/bin/busybox"

// addPause compiles the program that holds the namespaces of a pod.
func addPause(ctx context.Context, l *deb.Layer) error {
	dir, err := os.MkdirTemp("", "images")
	if err != nil {
		return fmt.Errorf("making a folder for a program: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(pauseSource), 0o644); err != nil {
		return fmt.Errorf("writing a program: %w", err)
	}
	program, err := compilePackage(ctx, dir, runtime.GOARCH, "off", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "main.go")
	if err != nil {
		return err
	}
	return l.Add(deb.Entry{Path: "pause", Data: string(program), Mode: 0o755})
}
