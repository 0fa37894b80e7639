// Command catalog renders the catalogs of operators from the templates and the bundles. On request it builds the images of
// one operator's bundle and catalog, and pushes them.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/homeostat-dev/homeostat/bundle"
	"github.com/homeostat-dev/homeostat/olm"
	"github.com/homeostat-dev/homeostat/tools/images/oci"
)

const usage = `usage: catalog -o FOLDER [-inline | IMAGES] -released FOLDER -current FOLDER TEMPLATE...
where -released has the bundles of former versions, as OPERATOR/vVERSION, and -current those of now, as OPERATOR, and IMAGES
is, for a single TEMPLATE:
       -images FOLDER [-to REGISTRY/PREFIX/]
It builds the images OPERATOR-bundle of the version of now and OPERATOR-catalog of all versions, and pushes them with -to`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "catalog:", err)
		os.Exit(1)
	}
}

// options are the arguments.
type options struct {
	folder, released, current string
	images, registry          string // of the images, "" for none
	inline                    bool
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("catalog", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.folder, "o", "", "where the catalog is written")
	flags.StringVar(&o.released, "released", "", "the bundles of former versions")
	flags.StringVar(&o.current, "current", "", "the bundles of now")
	flags.StringVar(&o.images, "images", "", "where images are written")
	flags.StringVar(&o.registry, "to", "", "what comes before the names of the images")
	flags.BoolVar(&o.inline, "inline", false, "whether the catalog has all of each bundle, for tests")
	err := flags.Parse(args)
	if err != nil || o.folder == "" || o.released == "" || o.current == "" || flags.NArg() == 0 ||
		o.images != "" && (o.inline || flags.NArg() > 1) || o.images == "" && o.registry != "" {
		return errors.Join(err, errors.New(usage))
	}
	for _, file := range flags.Args() {
		operator := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		if err := o.render(ctx, file, operator); err != nil {
			return err
		}
		if o.images == "" {
			continue
		}
		if err := o.buildImages(ctx, operator, out); err != nil {
			return err
		}
	}
	return nil
}

// render checks and writes the catalog of an operator.
func (o *options) render(ctx context.Context, template, operator string) error {
	flavour := olm.Published
	if o.inline {
		flavour = olm.Inline
	}
	bundles := olm.BundlesIn(o.released, o.current)
	catalog, err := olm.Render(ctx, template, bundles, flavour)
	if err == nil {
		err = olm.CheckComplete(catalog, filepath.Join(o.released, operator))
	}
	if err == nil && flavour == olm.Published {
		err = olm.CheckUpgrades(catalog, bundles)
	}
	if err != nil {
		return err
	}
	if o.registry != "" {
		olm.Relocate(catalog, o.registry)
	}
	var text bytes.Buffer
	if err := declcfg.WriteYAML(*catalog, &text); err != nil {
		return fmt.Errorf("writing the catalog: %w", err)
	}
	into := filepath.Join(o.folder, operator)
	err = errors.Join(os.MkdirAll(into, 0o755), os.WriteFile(filepath.Join(into, "catalog.yaml"), text.Bytes(), 0o644))
	if err != nil {
		return fmt.Errorf("writing the catalog: %w", err)
	}
	return nil
}

// buildImages writes the images of the operator's bundle of now and of the catalog, pushes them if there is a registry, and
// prints the name and digest of each. The images of former bundles were pushed with their version.
func (o *options) buildImages(ctx context.Context, operator string, out io.Writer) error {
	from := filepath.Join(o.current, operator)
	version, err := bundle.Version(from)
	if err != nil {
		return err
	}
	for _, image := range []struct {
		name, dir string
		build     func(dir string) (v1.Image, error)
		tags      []string
	}{
		{operator + "-bundle", from, olm.BundleImage, []string{"v" + version}},
		{operator + "-catalog", o.folder, olm.CatalogImage, []string{"v" + version, "latest"}}, // clusters look for the latest
	} {
		built, err := image.build(image.dir)
		if err == nil {
			err = oci.Write(built, image.name+":v"+version, filepath.Join(o.images, image.name))
		}
		if err != nil {
			return fmt.Errorf("making the image %s: %w", image.name, err)
		}
		if o.registry != "" {
			for _, tag := range image.tags {
				if _, err := oci.Push(ctx, built, o.registry+image.name+":"+tag); err != nil {
					return err
				}
			}
		}
		digest, err := built.Digest()
		if err == nil {
			_, err = fmt.Fprintf(out, "%s%s@%s\n", cmp.Or(o.registry, "registry.invalid/"), image.name, digest)
		}
		if err != nil {
			return fmt.Errorf("printing the digest: %w", err)
		}
	}
	return nil
}
