// Command myapp runs the operator.
package main

import (
	"github.com/homeostat-dev/homeostat/operators/myapp"
	"github.com/homeostat-dev/homeostat/sdk"
)

func main() { sdk.Main(myapp.Operator) }
