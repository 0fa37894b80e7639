// Command myapp runs the operator.
package main

import (
	"github.com/homeostat-dev/homeostat/operators/myapp"
	"github.com/homeostat-dev/homeostat/sdk/program"
)

func main() { program.Main(myapp.Operator) }
