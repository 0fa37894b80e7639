package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
)

var (
	person = regexp.MustCompile(`\b([Ss]omebody|[Nn]obody|[Ww]hoever|[Ww]hatever)\b`) // not http.NoBody
	inline = regexp.MustCompile("`[^`]*`")
)

// exempt are the folders and files whose texts may contain an indefinite person: the license, released texts, which
// never change, fixtures, accounts of Debian, and this program.
var exempt = []string{
	"LICENSE", "olm/catalog/", "olm/released/", "testdata/", "tools/images/files/passwd", "tools/wordcheck/",
}

// checkTracked returns a sentence for each indefinite person in the files below the folder that git tracks.
func checkTracked(root string) ([]string, error) {
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		return nil, fmt.Errorf("listing the tracked files: %w", err)
	}
	names := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	return checkPersons(os.DirFS(root), names)
}

// checkPersons returns a sentence for each indefinite person or thing in the text files with these names. In Markdown,
// inline code may quote one.
func checkPersons(fsys fs.FS, names []string) ([]string, error) {
	var problems []string
	for _, name := range names {
		if isExempt(name) {
			continue
		}
		info, err := fs.Lstat(fsys, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return nil, fmt.Errorf("looking up a tracked file: %w", err)
		}
		if !info.Mode().IsRegular() {
			continue
		}
		source, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("reading a tracked file: %w", err)
		}
		if bytes.IndexByte(source, 0) < 0 {
			problems = append(problems, personsIn(name, string(source))...)
		}
	}
	return problems, nil
}

func isExempt(name string) bool {
	for _, e := range exempt {
		if name == e || strings.HasSuffix(e, "/") && strings.Contains("/"+name, "/"+e) {
			return true
		}
	}
	return false
}

func personsIn(name, source string) []string {
	var problems []string
	n := 0
	for line := range strings.Lines(source) {
		n++
		if path.Ext(name) == ".md" {
			line = inline.ReplaceAllString(line, "")
		}
		for _, word := range person.FindAllString(line, -1) {
			problems = append(problems, fmt.Sprintf("%s:%d: text says %q: name the user, controller or object that is meant",
				name, n, word))
		}
	}
	return problems
}
