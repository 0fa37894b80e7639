// Command demo tells the story of ImmortalContainer once, on a cluster of its own: the article's manifest, the death of
// its pod, and the death of the operator. It prints what it saw, and its exit code is 1 if that is not what the
// operator promises.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/cluster"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

func main() {
	sandbox.ServeIfAsked()
	dir := flag.String("dir", "operators/immortalcontainer", "folder of the operator")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *dir, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, out io.Writer) (err error) {
	project, err := sandbox.Load(ctx, dir)
	if err != nil {
		return err
	}
	set, err := assets.Find(ctx, assets.Options{
		Need: cluster.Programs(cluster.Workloads), Progress: assets.Print(os.Stderr),
	})
	if err != nil {
		return fmt.Errorf("finding a control plane: %w", err)
	}
	box, err := sandbox.Start(ctx, sandbox.Options{
		Projects: []*sandbox.Project{project}, Assets: set,
		Report: func(line string) { fmt.Fprintln(out, "  ", line) },
	})
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	// An interrupted story still cleans up after itself.
	defer func() {
		if stopErr := box.Stop(context.WithoutCancel(ctx)); err == nil {
			err = stopErr
		}
	}()
	s, err := newStory(box, out)
	if err != nil {
		return err
	}
	return s.tell(ctx)
}
