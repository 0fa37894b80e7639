// Command linkcheck finds relative links in Markdown files that lead nowhere.
//
// Documentation rots where it points: a file is moved, a heading reworded, and the map leads to a place that is gone.
// linkcheck reads each Markdown file under a folder and fails when a relative link names no file of the repository,
// or no heading of the Markdown file it names. It never opens a network connection: links with a scheme are not judged.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: linkcheck DIR, where DIR is the root of the repository")
		os.Exit(2)
	}
	faults, err := check(os.DirFS(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "linkcheck:", err)
		os.Exit(2)
	}
	for _, fault := range faults {
		fmt.Fprintln(os.Stderr, fault)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
}
