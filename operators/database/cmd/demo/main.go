// Command demo runs a scripted demo of a Database on a cluster of its own: the article's manifest, volume expansion,
// settings that restart the primary last, a rejected update, and data and passwords that outlive their Database. The nodes
// of that cluster are simulated, so no server runs. The exit code is 1 if the result is not the promised one.
package main

import "github.com/homeostat-dev/homeostat/testkit/sandbox/demo"

func main() { demo.Main(databaseDemo) }
