// Command database runs the operators.
package main

import "github.com/homeostat-dev/homeostat/operators/database"

func main() { database.Program().Main() }
