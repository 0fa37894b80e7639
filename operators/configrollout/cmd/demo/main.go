// Command demo tells the story of configrollout once, on a cluster of its own: the article's nginx, whose pods are replaced
// when its configuration changes, and only then. It prints what it saw, and its exit code is 1 if that is not what the
// operator promises.
package main

import "github.com/homeostat-dev/homeostat/testkit/demo"

func main() { demo.Main(life) }
