// Command demo runs a scripted demo of Copyrator on a cluster of its own: the article's rule, a new namespace, a changed
// source, modified copies, and a name conflict. It prints each result and exits with code 1 if one is wrong.
package main

import "github.com/homeostat-dev/homeostat/testkit/sandbox/demo"

func main() { demo.Main(copyDemo) }
