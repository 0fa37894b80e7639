//go:build linux

package volume

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage: homeostat-volume controller --socket SOCKET --dir DIR
       homeostat-volume node --socket SOCKET --dir DIR --node-name NAME [--plugins-registry DIR]
       homeostat-volume fence --dir DIR [--node-name NAME]
`

// Main runs the program with the arguments after its name, and returns its exit code: 0 after SIGTERM or SIGINT, 2 for wrong
// arguments. Each subcommand is a function of this package: [ServeController], [ServeNode] and [Fence].
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := run(ctx, args)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		const wrongArguments = 2
		return wrongArguments
	}
	fmt.Fprintln(os.Stderr, "homeostat-volume:", err)
	return 1
}

var errUsage = errors.New("wrong arguments")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.Usage = func() {}
	socket := flags.String("socket", "", "")
	dir := flags.String("dir", "", "")
	node := flags.String("node-name", "", "")
	plugins := flags.String("plugins-registry", "", "")
	if flags.Parse(args[1:]) != nil || flags.NArg() > 0 || *dir == "" || *socket == "" && args[0] != "fence" {
		return errUsage
	}
	switch args[0] {
	case "controller":
		return ServeController(ctx, *socket, *dir)
	case "node":
		return ServeNode(ctx, *socket, *dir, *node, *plugins)
	case "fence":
		return Fence(ctx, *dir, *node)
	}
	return errUsage
}
