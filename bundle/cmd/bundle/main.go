// Command bundle renders the bundles of operators, and checks bundles.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/homeostat-dev/homeostat/bundle"
)

const usage = `usage: bundle render -o FOLDER -images FILE [-name NAME] OPERATOR...
       bundle check BUNDLE...
where OPERATOR is a folder that has a folder config, BUNDLE one that has a folder manifests, and FILE has a line for each
operator: the name of its image, an at sign and the digest, as make images prints them. NAME is that of a single operator
(default: the name of its folder)`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "render":
		flags := flag.NewFlagSet("bundle render", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		folder := flags.String("o", "", "where the bundles are written")
		file := flags.String("images", "", "which has the images")
		name := flags.String("name", "", "of the operator")
		err := flags.Parse(args[1:])
		if err != nil || *folder == "" || *file == "" || flags.NArg() == 0 || *name != "" && flags.NArg() > 1 {
			return errors.Join(err, errors.New(usage))
		}
		return render(*folder, *file, *name, flags.Args())
	case "check":
		if len(args) == 1 {
			return errors.New(usage)
		}
		return check(args[1:], out)
	}
	return errors.New(usage)
}

func render(folder, file, only string, operators []string) error {
	images, err := readImages(file)
	if err != nil {
		return err
	}
	for _, dir := range operators {
		name := cmp.Or(only, filepath.Base(filepath.Clean(dir)))
		image, ok := images[name]
		if !ok {
			return fmt.Errorf("%s has no image of %s: write there what make images OPERATOR=%s prints", file, name, name)
		}
		b, err := bundle.RenderAs(name, dir, image)
		if err == nil {
			err = b.Write(filepath.Join(folder, name))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// readImages returns the images in a file, by the names of the operators.
func readImages(file string) (map[string]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading which images there are: %w", err)
	}
	images := map[string]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, _, _ := strings.Cut(line, "@")
		images[name[strings.LastIndexByte(name, '/')+1:]] = line
	}
	return images, nil
}

// check prints each problem, and fails if there is one.
func check(dirs []string, out io.Writer) error {
	found := 0
	for _, dir := range dirs {
		problems, err := bundle.Check(dir)
		if err != nil {
			return err
		}
		for _, p := range problems {
			if _, err := fmt.Fprintf(out, "%s: %s\n", dir, p); err != nil {
				return fmt.Errorf("printing a problem: %w", err)
			}
		}
		found += len(problems)
	}
	if found > 0 {
		return fmt.Errorf("%d problems", found)
	}
	return nil
}
