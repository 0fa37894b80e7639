// Command demo runs a scripted demo of ImmortalContainer on a cluster of its own: it applies the article's manifest,
// deletes the pod and kills the operator. It prints each result and exits with code 1 if one is wrong.
package main

import "github.com/homeostat-dev/homeostat/testkit/sandbox/demo"

func main() { demo.Main(immortalDemo) }
