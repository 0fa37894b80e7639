// Command after runs the operator of package after.
package main

import (
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/after"
	"github.com/homeostat-dev/homeostat/sdk/program"
)

func main() { program.Main(after.New("monitoring")) }
