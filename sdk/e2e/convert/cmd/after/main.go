// Command after runs the operator of package after.
package main

import (
	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/e2e/convert/after"
)

func main() { sdk.Main(after.New("monitoring")) }
