// Command modcheck holds the go.mod files of the workspace to one another.
//
// A workspace hides drift: under go.work the go command builds with the highest version that any module asks for, so a
// module that would build with something else alone, or not at all, looks healthy until somebody imports it. modcheck
// fails and names file, fault and repair when a rule below is broken. It is not a replacement for `go mod tidy -diff`,
// which judges a module by its imports, nor for `GOWORK=off go build`, which judges it by the compiler.
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
	faults, err := check(os.DirFS(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "modcheck:", err)
		os.Exit(2)
	}
	for _, fault := range faults {
		fmt.Fprintln(os.Stderr, fault)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
}
