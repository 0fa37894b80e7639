// Command testkit gives people and programs a Kubernetes control plane: see `testkit help`.
package main

import (
	"os"

	"github.com/homeostat-dev/homeostat/testkit/cmd/testkit/internal/cli"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
)

func main() {
	environment.RunHelperProcess()
	os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
}
