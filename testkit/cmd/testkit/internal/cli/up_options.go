package cli

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// upOptions holds the arguments of up.
type upOptions struct {
	nodes      int
	nodesGiven bool
	detach     bool
	bare       bool
	real       bool     // nodes
	images     []string // folders for real nodes, absolute
	dirs       []string // absolute
	projects   []*sandbox.Project
	existing   *sandbox.ExistingCluster // nil for a cluster of its own
	background bool
}

// context names the existing cluster. It is empty if there is none.
func (o *upOptions) context() string {
	if o.existing == nil {
		return ""
	}
	return o.existing.Context
}

func (c *command) upOptions(ctx context.Context, args []string) (upOptions, error) {
	var o upOptions
	var existing string
	var flags *flag.FlagSet
	dirs, err := c.parse("up", args, func(f *flag.FlagSet) {
		flags = f
		f.StringVar(&existing, "context", "", "")
		f.IntVar(&o.nodes, "nodes", 0, "")
		f.BoolVar(&o.detach, "detach", false, "")
		f.BoolVar(&o.bare, "bare", false, "")
		f.BoolVar(&o.real, "real", false, "")
		f.Func("images", "", func(dir string) error {
			o.images = append(o.images, dir)
			return nil
		})
	})
	if err != nil {
		return o, err
	}
	if o.nodes < 0 {
		return o, usagef("up: --nodes=%d: there cannot be fewer than none", o.nodes)
	}
	flags.Visit(func(f *flag.Flag) { o.nodesGiven = o.nodesGiven || f.Name == "nodes" })
	if err := o.checkReal(); err != nil {
		return o, err
	}
	if existing != "" {
		if o.nodes > 0 || o.bare || o.real {
			return o, usagef("up: --real, --nodes and --bare are for a cluster of its own: leave them out, or --context")
		}
		if o.existing, err = sandbox.FindExisting(existing); err != nil {
			return o, usagef("up: %w", err)
		}
	}
	if err := o.checkRunning(dirs); err != nil {
		return o, err
	}
	return o, o.load(ctx, dirs)
}

// load reads the operators in folders.
func (o *upOptions) load(ctx context.Context, dirs []string) error {
	names := map[string]string{}
	for _, dir := range dirs {
		p, err := sandbox.Load(ctx, dir)
		if err != nil {
			return err
		}
		if other, taken := names[p.Name]; taken {
			return usagef("up: %s and %s have the same name", other, dir)
		}
		names[p.Name] = dir
		o.projects = append(o.projects, p)
		o.dirs = append(o.dirs, p.Dir)
	}
	return nil
}

// checkReal returns an error if real nodes were asked for and this machine cannot run them.
func (o *upOptions) checkReal() (err error) {
	if len(o.images) > 0 && !o.real {
		return usagef("up: --images is for --real")
	}
	if !o.real {
		return nil
	}
	switch {
	case o.nodes == 0 && o.nodesGiven:
		return usagef("up: --real --nodes=0: on real nodes there has to be one at least: leave out --nodes, or --real")
	case o.nodes == 0:
		o.nodes = defaultRealNodes
	}
	for i, dir := range o.images {
		if o.images[i], err = filepath.Abs(dir); err != nil {
			return fmt.Errorf("finding the images: %w", err)
		}
		if files, err := filepath.Glob(filepath.Join(o.images[i], "*.tar")); err != nil || len(files) == 0 {
			return usagef("up: --images %s: there is no folder with this name that has files *.tar", dir)
		}
	}
	if err := cluster.CheckReal(); err != nil {
		return usagef("up: --real: %w", err)
	}
	return nil
}

// checkRunning reports a running sandbox of the project that does not fit, before the folders are read, which takes time.
func (o *upOptions) checkRunning(dirs []string) error {
	box, err := findSandbox()
	if err != nil || os.Getenv(background) != "" {
		return err
	}
	s, err := box.status()
	if err != nil {
		return nil //nolint:nilerr // none is running
	}
	asked := *o
	for _, dir := range dirs {
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return fmt.Errorf("finding the folder: %w", err)
		}
		asked.dirs = append(asked.dirs, absolute)
	}
	return asked.fits(s)
}

// fits returns an error if a running sandbox is not the one that is asked for.
func (o *upOptions) fits(s status) error {
	if s.Context != o.context() {
		where := "on a cluster of its own"
		if s.Context != "" {
			where = "in the cluster of context " + s.Context
		}
		return fmt.Errorf("a sandbox is already running, %s; stop it first: %s", where, stopCommand())
	}
	if s.Real != o.real {
		return fmt.Errorf("a cluster is already running, on %s nodes; stop it first: %s",
			map[bool]string{true: "real", false: "simulated"}[s.Real], stopCommand())
	}
	if s.WithoutOperators != o.bare {
		return fmt.Errorf("a cluster is already running, %s; stop it first: %s",
			map[bool]string{
				true: "in which nothing was installed", false: "with its operators installed",
			}[s.WithoutOperators], stopCommand())
	}
	if !slices.Equal(s.Dirs, o.dirs) {
		return fmt.Errorf("a cluster is already running, with other operators (%s); stop it first: %s",
			orNone(names(s.Dirs)), stopCommand())
	}
	return nil
}
