// Command linkcheck finds broken relative links in Markdown files.
//
// Links break when a file is moved or a heading is changed. linkcheck reads each Markdown file under a folder and fails when
// a relative link names no file of the repository, or no heading of a Markdown file. It opens no network connection and
// ignores links with a scheme.
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
	problems, err := check(os.DirFS(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "linkcheck:", err)
		os.Exit(2)
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}
