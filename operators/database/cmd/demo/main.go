// Command demo tells the story of a Database once, on a cluster of its own: the article's manifest, volumes that grow,
// settings that restart the primary last, a deletion that is refused, and data and passwords that outlive their Database.
// The nodes of that cluster are simulated, so that no server runs. It prints what it saw, and its exit code is 1 if that is
// not what the operator promises.
package main

import "github.com/homeostat-dev/homeostat/testkit/demo"

func main() { demo.Main(life) }
