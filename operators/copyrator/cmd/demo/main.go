// Command demo tells the story of Copyrator once, on a cluster of its own: the article's rule, a namespace that comes, a
// source that changes, copies that somebody spoils, and somebody else's object in the way. It prints what it saw, and its
// exit code is 1 if that is not what the operator promises.
package main

import "github.com/homeostat-dev/homeostat/testkit/demo"

func main() { demo.Main(life) }
