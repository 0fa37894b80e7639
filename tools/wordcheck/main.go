// Command wordcheck holds the tracked text files and the commit subjects of a repository to the rules of language in
// CONTRIBUTING.md that a program can decide.
//
// It reports indefinite persons in every text file, and in Go files //nolint directives that name a linter which
// .golangci.yml disables and assignments to several fields at once. It reports commit subjects that are not an imperative of
// at most 72 characters. It also fails if too many sentences of the comments contain a relative or interrogative pronoun. It
// judges nothing else in identifiers, strings and Markdown: the glossary and the reviewers do.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	since := flag.String("since", "", "check the subjects of the commits after this one; empty checks none")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: wordcheck [-since commit] [folder]")
		flag.PrintDefaults()
	}
	flag.Parse()
	root := flag.Arg(0)
	if root == "" {
		root = "."
	}
	problems, err := checkFiles(os.DirFS(root))
	if err == nil {
		var more []string
		more, err = checkTracked(root)
		problems = append(problems, more...)
	}
	if err == nil && *since != "" {
		var more []string
		more, err = checkHistory(root, *since)
		problems = append(problems, more...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "wordcheck:", err)
		os.Exit(2)
	}
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}
