// Command charts writes the Helm chart of an operator from its config folder, and packages it.
//
// A chart says once more what config says already: the definitions, the rights, how the program is started. What is said
// twice drifts, so all of a chart is generated, by the templates in the folder template, and `make verify` fails if it is
// not what config makes of it (docs/adr/0070). The tests install each chart that there is.
//
// This is a module of its own, outside the workspace, because it needs Helm.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

const usage = `usage: charts generate OPERATOR...
       charts package [-version V] -o FOLDER OPERATOR...
where OPERATOR is a folder that has a folder config`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "charts:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "generate":
		return each(args[1:], generate)
	case "package":
		flags := flag.NewFlagSet("charts package", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		version := flags.String("version", "", "of the chart and of the image; empty means what the chart says")
		folder := flags.String("o", "", "where the archives are written")
		if err := flags.Parse(args[1:]); err != nil || *folder == "" {
			return errors.Join(err, errors.New(usage))
		}
		return each(flags.Args(), func(dir string) error {
			file, err := pack(dir, *folder, *version)
			if err == nil {
				_, err = fmt.Fprintln(out, file)
			}
			return err
		})
	}
	return errors.New(usage)
}

func each(dirs []string, do func(dir string) error) error {
	if len(dirs) == 0 {
		return errors.New(usage)
	}
	for _, dir := range dirs {
		if err := do(dir); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}
