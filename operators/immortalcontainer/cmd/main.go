// Command immortalcontainer runs the operator.
package main

import (
	"github.com/homeostat-dev/homeostat/operators/immortalcontainer"
	"github.com/homeostat-dev/homeostat/sdk/program"
)

func main() { program.Main(immortalcontainer.Operator) }
