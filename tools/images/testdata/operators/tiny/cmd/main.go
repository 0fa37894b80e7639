// Command tiny is an operator without an operator: what is tested with it is the image around it.
package main

import (
	"fmt"

	"github.com/homeostat-dev/homeostat/sdk/program"
)

func main() { fmt.Println("tiny", program.Version()) }
