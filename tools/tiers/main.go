// Command tiers prints the argument of go test's flags -skip and -run for the tests that a tier leaves out, or the packages
// that declare them.
//
//	go test -skip "$(tiers DIR FILE)"
//	go test -run "$(tiers DIR FILE)" $(tiers -packages DIR FILE)
//
// Each line of FILE has the name of a test or of a subtest, and after two spaces the reason. Empty lines and lines that
// begin with # are ignored. A test that no file in DIR declares is an error: a renamed test would otherwise run again, or a
// test that was replaced would be left out in silence.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

func main() {
	packages := flag.Bool("packages", false, "print the packages of the tests")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: tiers [-packages] DIR FILE, where DIR has the tests and FILE the list")
		os.Exit(2)
	}
	err := run(flag.Arg(0), flag.Arg(1), *packages)
	if err != nil {
		fmt.Fprintf(os.Stderr, "tiers: %s: %v\n", flag.Arg(1), err)
		os.Exit(1)
	}
}

func run(dir, file string, packages bool) error {
	list, err := os.ReadFile(file) //nolint:gosec // the file is an argument
	if err != nil {
		return err
	}
	t, err := selectTests(os.DirFS(dir), string(list))
	switch {
	case err != nil:
		return err
	case packages:
		fmt.Println(strings.Join(t.packages, "\n"))
	default:
		fmt.Println(t.pattern)
	}
	return nil
}

// tests are the tests of a list.
type tests struct {
	pattern  string   // for the flags -skip and -run of go test
	packages []string // sorted relative paths such as ./sdk/e2e
}

// selectTests returns the tests of the list.
func selectTests(fsys fs.FS, list string) (tests, error) {
	declared, err := declaredTests(fsys)
	if err != nil {
		return tests{}, err
	}
	var patterns, packages []string
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, _ := strings.Cut(line, "  ")
		if strings.TrimSpace(reason) == "" {
			return tests{}, fmt.Errorf("%q: write two spaces and the reason after the name", line)
		}
		parts := strings.Split(name, "/")
		if len(declared[parts[0]]) == 0 {
			return tests{}, fmt.Errorf("no test is called %s: correct its name or delete the line", parts[0])
		}
		packages = append(packages, declared[parts[0]]...)
		for i, part := range parts {
			parts[i] = "^" + regexp.QuoteMeta(part) + "$"
		}
		patterns = append(patterns, strings.Join(parts, "/"))
	}
	if len(patterns) == 0 {
		return tests{}, errors.New("the list has no test")
	}
	slices.Sort(patterns)
	slices.Sort(packages)
	return tests{strings.Join(patterns, "|"), slices.Compact(packages)}, nil
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// declaredTests returns the packages that declare a test, by its name.
func declaredTests(fsys fs.FS) (map[string][]string, error) {
	declared := map[string][]string{}
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "build", "testdata"}, entry.Name()) {
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
			declared[string(match[1])] = append(declared[string(match[1])], "./"+path.Dir(name))
		}
		return nil
	})
	return declared, err
}
