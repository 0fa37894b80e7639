// Command modcheck checks the go.mod files of the workspace against each other.
//
// A workspace hides drift: under go.work the go command builds with the highest version that any module requires. A module
// that builds with another version alone, or not at all, looks correct until another repository imports it. modcheck fails
// and names file, problem and repair when a rule below is broken. It does not replace `go mod tidy -diff`, which checks a
// module against its imports, nor `GOWORK=off go build`, which compiles it.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: modcheck DIR, where DIR holds go.work")
		os.Exit(2)
	}
	problems, err := check(os.DirFS(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "modcheck:", err)
		os.Exit(2)
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}
