// Command catalog renders the catalog of all operators from the templates and the bundles.
package main

import (
	"bytes"
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

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/homeostat-dev/homeostat/olm"
)

const usage = `usage: catalog -o FOLDER [-inline] -released FOLDER -current FOLDER TEMPLATE...
where -released has the bundles of former versions, as OPERATOR/vVERSION, and -current those of now, as OPERATOR`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "catalog:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("catalog", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	folder := flags.String("o", "", "where the catalog is written")
	released := flags.String("released", "", "the bundles of former versions")
	current := flags.String("current", "", "the bundles of now")
	inline := flags.Bool("inline", false, "whether the catalog has all of each bundle, for tests")
	if err := flags.Parse(args); err != nil || *folder == "" || *released == "" || *current == "" || flags.NArg() == 0 {
		return errors.Join(err, errors.New(usage))
	}
	flavour := olm.Published
	if *inline {
		flavour = olm.Inline
	}
	for _, file := range flags.Args() {
		operator := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		catalog, err := olm.Render(ctx, file, olm.BundlesIn(*released, *current), flavour)
		if err == nil {
			err = olm.CheckComplete(catalog, filepath.Join(*released, operator))
		}
		if err == nil && flavour == olm.Published {
			err = olm.CheckUpgrades(catalog, olm.BundlesIn(*released, *current))
		}
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := declcfg.WriteYAML(*catalog, &text); err != nil {
			return fmt.Errorf("writing the catalog: %w", err)
		}
		into := filepath.Join(*folder, operator)
		err = errors.Join(os.MkdirAll(into, 0o755), os.WriteFile(filepath.Join(into, "catalog.yaml"), text.Bytes(), 0o644))
		if err != nil {
			return fmt.Errorf("writing the catalog: %w", err)
		}
	}
	return nil
}
