// Command demo tells the story of ImmortalContainer once, on a cluster of its own: the article's manifest, the death of
// its pod, and the death of the operator. It prints what it saw, and its exit code is 1 if that is not what the
// operator promises.
package main

import "github.com/homeostat-dev/homeostat/testkit/demo"

func main() { demo.Main(immortality) }
