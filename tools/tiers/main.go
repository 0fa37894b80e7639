// Command tiers prints the argument of go test's flag -skip for the tests that a tier leaves out.
//
//	go test -skip "$(tiers DIR FILE)"
//
// Each line of FILE has the name of a test or of a subtest, and after two spaces the reason. Empty lines and lines that
// begin with # are ignored. A test that no file in DIR declares is an error: a renamed test would otherwise run again, or a
// test that was replaced would be left out in silence.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: tiers DIR FILE, where DIR has the tests and FILE the list")
		os.Exit(2)
	}
	list, err := os.ReadFile(os.Args[2]) //nolint:gosec // the file is an argument
	if err == nil {
		var pattern string
		if pattern, err = skipPattern(os.DirFS(os.Args[1]), string(list)); err == nil {
			fmt.Println(pattern)
			return
		}
	}
	fmt.Fprintf(os.Stderr, "tiers: %s: %v\n", os.Args[2], err)
	os.Exit(1)
}

// skipPattern returns the pattern for the tests of the list.
func skipPattern(fsys fs.FS, list string) (string, error) {
	declared, err := declaredTests(fsys)
	if err != nil {
		return "", err
	}
	var patterns []string
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, _ := strings.Cut(line, "  ")
		if strings.TrimSpace(reason) == "" {
			return "", fmt.Errorf("%q: write two spaces and the reason after the name", line)
		}
		parts := strings.Split(name, "/")
		if !declared[parts[0]] {
			return "", fmt.Errorf("no test is called %s: correct its name or delete the line", parts[0])
		}
		for i, part := range parts {
			parts[i] = "^" + regexp.QuoteMeta(part) + "$"
		}
		patterns = append(patterns, strings.Join(parts, "/"))
	}
	if len(patterns) == 0 {
		return "", errors.New("the list has no test")
	}
	slices.Sort(patterns)
	return strings.Join(patterns, "|"), nil
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// declaredTests returns the names of the tests of all files.
func declaredTests(fsys fs.FS) (map[string]bool, error) {
	declared := map[string]bool{}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "build") {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path.Base(name), "_test.go") {
			return nil
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		for _, match := range testFunc.FindAllSubmatch(data, -1) {
			declared[string(match[1])] = true
		}
		return nil
	})
	return declared, err
}
