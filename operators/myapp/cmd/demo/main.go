// Command demo runs a scripted demo of MyApp on a cluster of its own: the article's manifest, three pods, a modified
// Deployment, a larger volume, and a claim that outlives its app. It prints each result and exits with code 1 if one is
// wrong.
package main

import "github.com/homeostat-dev/homeostat/testkit/sandbox/demo"

func main() { demo.Main(appDemo) }
