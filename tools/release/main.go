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
	"slices"
	"strings"
	"syscall"
)

const usage = `usage: release rehearse -version V -o FOLDER -modules "..." -operators "..." [-root FOLDER] [-tools FOLDER]
                        [-to REGISTRY/PREFIX/]
       release publish -o FOLDER -to REGISTRY/PREFIX/ [-root FOLDER] [-tools FOLDER] [-remote NAME]
       release page -o FOLDER [-root FOLDER]
where -root is the repository, -modules and -operators are folders below it, separated by spaces, and -tools is the
repository that has the programs to make a release with, which is the same one unless it is said`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || !slices.Contains([]string{"rehearse", "publish", "page"}, args[0]) {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	folder := flags.String("o", "", "where the release is")
	root := flags.String("root", "../..", "the repository")
	var tools, to, version, modules, operators, remote string
	if args[0] != "page" {
		flags.StringVar(&tools, "tools", "", "the repository with the programs")
		flags.StringVar(&to, "to", "", "what the names of all images begin with")
	}
	switch args[0] {
	case "rehearse":
		flags.StringVar(&version, "version", "", "which version is released")
		flags.StringVar(&modules, "modules", "", "the folders of the modules that are released")
		flags.StringVar(&operators, "operators", "", "the folders of the operators")
	case "publish":
		flags.StringVar(&remote, "remote", "origin", "of git")
	}
	if err := flags.Parse(args[1:]); err != nil || *folder == "" || flags.NArg() > 0 {
		return errors.Join(err, errors.New(usage))
	}
	tools = cmp.Or(tools, *root)
	if err := normalizePaths(to, folder, root, &tools); err != nil {
		return err
	}
	switch args[0] {
	case "page":
		return makeReleasePage(ctx, *root, *folder)
	case "publish":
		if to == "" {
			return errors.New("it is not said where to: PUSH=registry/team/")
		}
		p := publication{root: *root, tools: tools, folder: *folder, prefix: to, remote: remote, out: out}
		return p.publish(ctx)
	}
	r := rehearsal{
		root: *root, tools: tools, version: version, prefix: cmp.Or(to, "homeostat/"), dirs: strings.Fields(modules),
		operators: strings.Fields(operators), out: out,
	}
	return r.writeTo(ctx, *folder)
}

// normalizePaths rejects an invalid name prefix, and makes folders absolute, because programs run in other folders.
func normalizePaths(to string, folders ...*string) error {
	if to != "" && !strings.HasSuffix(to, "/") {
		return fmt.Errorf("%q is what the names of images begin with, so it ends in a slash: write %q", to, to+"/")
	}
	for _, dir := range folders {
		absolute, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("finding a folder: %w", err)
		}
		*dir = absolute
	}
	return nil
}
