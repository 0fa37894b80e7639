// Command homeostat creates operators and adds webhooks to them. It is a module without requirements of other modules of
// this repository, so that it can be installed by its path and version after a release.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/homeostat-dev/homeostat/sdk/cmd/homeostat/scaffold"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := scaffold.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
