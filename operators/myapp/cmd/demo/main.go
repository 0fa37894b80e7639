// Command demo tells the story of MyApp once, on a cluster of its own: the article's manifest, three pods, a Deployment that
// somebody breaks, a volume that grows, and data that outlives its app. It prints what it saw, and its exit code is 1 if
// that is not what the operator promises.
package main

import "github.com/homeostat-dev/homeostat/testkit/demo"

func main() { demo.Main(life) }
