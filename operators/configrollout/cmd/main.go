// Command configrollout runs the operator.
package main

import (
	_ "time/tzdata" // windows name time zones, and the image has none

	"github.com/homeostat-dev/homeostat/operators/configrollout"
)

func main() { configrollout.Program().Main() }
