// Command copyrator runs the operator.
package main

import "github.com/homeostat-dev/homeostat/operators/copyrator"

func main() { copyrator.Program().Main() }
