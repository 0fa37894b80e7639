// Command demo runs a scripted demo of configrollout on a cluster of its own: the article's nginx is rolled out when its
// configuration changes, and only then. It prints each result and exits with code 1 if one is wrong.
package main

import "github.com/homeostat-dev/homeostat/testkit/sandbox/demo"

func main() { demo.Main(rolloutDemo) }
