// Command charts generates the Helm chart of an operator from its config folder, and packages it.
//
// Most of a chart repeats config: the definitions, the permissions, the Deployment. To prevent drift, all of a chart is
// generated from the templates in the folder template, and `make verify` fails if it differs from config (docs/adr/0070).
// The tests install each chart.
//
// The umbrella chart contains the charts of all operators. It is generated while these are packaged, and is not stored in
// git.
//
// This is a module of its own, outside the workspace, because it depends on Helm.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

const usage = `usage: charts generate [-name NAME] [-path CHART] OPERATOR...
       charts package [-version V] [-images REGISTRY/PREFIX/] [-umbrella NAME] -o FOLDER OPERATOR...
       charts push -to REGISTRY/PREFIX/ ARCHIVE...
where OPERATOR is a folder that has a folder config, NAME is of its chart (default: the name of the folder), CHART is how the
texts of the chart name its folder (default: operators/NAME/chart), and ARCHIVE is what charts package printed`

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
		return generateAll(args[1:])
	case "package":
		return packageAll(args[1:], out)
	case "push":
		return pushAll(args[1:], out)
	}
	return errors.New(usage)
}

func generateAll(args []string) error {
	flags := flag.NewFlagSet("charts generate", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	name := flags.String("name", "", "of the chart")
	path := flags.String("path", "", "of the chart, in its texts")
	if err := flags.Parse(args); err != nil || flags.NArg() > 1 && *name+*path != "" {
		return errors.Join(err, errors.New(usage))
	}
	return each(flags.Args(), func(dir string) error { return generate(dir, *name, *path) })
}

func packageAll(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("charts package", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var p packaging
	flags.StringVar(&p.version, "version", "", "of the charts and of the images; empty means what the charts say")
	flags.StringVar(&p.images, "images", "", "what comes before the names of the images")
	flags.StringVar(&p.umbrella, "umbrella", "", "the name of a chart with all others in it")
	flags.StringVar(&p.folder, "o", "", "where the archives are written")
	if err := flags.Parse(args); err != nil || p.folder == "" || flags.NArg() == 0 {
		return errors.Join(err, errors.New(usage))
	}
	files, err := p.pack(flags.Args())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, strings.Join(files, "\n"))
	return err
}

func pushAll(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("charts push", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	to := flags.String("to", "", "what comes before the names of the charts")
	if err := flags.Parse(args); err != nil || *to == "" {
		return errors.Join(err, errors.New(usage))
	}
	return each(flags.Args(), func(file string) error {
		ref, err := push(file, *to)
		if err == nil {
			_, err = fmt.Fprintln(out, ref)
		}
		return err
	})
}

func each(args []string, do func(arg string) error) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	for _, arg := range args {
		if err := do(arg); err != nil {
			return fmt.Errorf("%s: %w", arg, err)
		}
	}
	return nil
}
