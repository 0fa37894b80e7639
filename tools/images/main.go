package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

const usage = `usage: images build -o FOLDER [-version V] [PROJECT] OPERATOR...
       images push -to REGISTRY/PREFIX/ -o FOLDER [-version V] [PROJECT] OPERATOR...
where OPERATOR is a folder that has a folder cmd, and PROJECT describes one operator of another repository:
       -name NAME -prefix PREFIX/ [-source URL] [-licenses SPDX] [-python BASE]
NAME is of its image (default: the name of the folder), and PREFIX is before the printed name unless the image is pushed.
With -python, OPERATOR has a function in Python, and BASE the images of Debian packages
       images base -o FOLDER
builds the images of Debian packages`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// run prints a line for each operator: the image's name and digest, separated by an at sign. For the base images it prints a
// table.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 3 && args[0] == "base" && args[1] == "-o" && args[2] != "" {
		return buildBase(ctx, args[2], out)
	}
	if len(args) == 0 || args[0] != "build" && args[0] != "push" {
		return errors.New(usage)
	}
	return runOperators(ctx, args, out)
}

// runOperators builds the images of operators, and pushes them on request.
func runOperators(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("images "+args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	folder := flags.String("o", "", "where the images are")
	version := flags.String("version", "dev", "of the images")
	p := homeostat
	flags.StringVar(&p.name, "name", "", "of the image")
	flags.StringVar(&p.prefix, "prefix", homeostat.prefix, "what comes before the printed name")
	flags.StringVar(&p.source, "source", "", "the URL of the source")
	flags.StringVar(&p.licenses, "licenses", "", "of the program")
	flags.StringVar(&p.base, "python", "", "the folder of the base images")
	var registry *string
	if args[0] == "push" {
		registry = flags.String("to", "", "what comes before the names of the images")
	}
	err := flags.Parse(args[1:])
	if err != nil || *folder == "" || flags.NArg() == 0 || registry != nil && *registry == "" {
		return errors.Join(err, errors.New(usage))
	}
	switch {
	case p.name == "":
		p = homeostat
	case flags.NArg() > 1:
		return errors.New(usage)
	}
	for _, dir := range flags.Args() {
		ref, err := buildAndPush(ctx, p, dir, *folder, *version, registry)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if _, err := fmt.Fprintln(out, ref); err != nil {
			return fmt.Errorf("printing the digest: %w", err)
		}
	}
	return nil
}

// buildAndPush builds the image of the operator in dir, writes it below folder and pushes it if a registry is given. It
// returns the image's name, with the digest.
func buildAndPush(ctx context.Context, p project, dir, folder, version string, registry *string) (string, error) {
	name := cmp.Or(p.name, filepath.Base(filepath.Clean(dir)))
	var image interface {
		remote.Taggable
		Digest() (v1.Hash, error)
	}
	var err error
	if p.base == "" {
		image, err = build(ctx, p, name, dir, version)
	} else {
		scratch := filepath.Join(folder, name+".base")
		defer func() { _ = os.RemoveAll(scratch) }()
		image, err = buildPython(ctx, p, name, dir, version, scratch)
	}
	if err != nil {
		return "", err
	}
	if err := oci.Write(image, name+":"+version, filepath.Join(folder, name)); err != nil {
		return "", err
	}
	digest, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("reading the digest: %w", err)
	}
	ref := p.prefix + name
	if registry != nil {
		if ref, err = oci.Push(ctx, image, *registry+name+":"+version); err != nil {
			return "", err
		}
	}
	return ref + "@" + digest.String(), nil
}
