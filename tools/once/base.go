package main

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// hasTestedFiles reports whether the files are those of the last common commit of HEAD and the tested branch. Without git or
// the branch it returns false.
func (o options) hasTestedFiles() bool {
	if o.tested == "" {
		return false
	}
	commit, err := git("merge-base", "HEAD", o.tested)
	if err != nil {
		return false
	}
	folders := append([]string{"--", o.tests}, o.sources...)
	changed, err := git(append([]string{"diff", "--name-only", "--relative", strings.TrimSpace(commit)}, folders...)...)
	if err != nil {
		return false
	}
	added, err := git(append([]string{"ls-files", "--others", "--exclude-standard"}, folders...)...)
	names := strings.FieldsFunc(changed+added, func(r rune) bool { return r == '\n' })
	return err == nil && !slices.ContainsFunc(names, o.covers)
}

// covers reports whether the digest contains the file.
func (o options) covers(name string) bool {
	in, err := filepath.Rel(o.tests, name)
	return err == nil && filepath.IsLocal(in) || isSource(name) || slices.Contains(o.sources, name)
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("running git %s: %w", args[0], err)
	}
	return string(out), nil
}

// skip says why the command does not run, and returns true if it need not.
func (o options) skip(stdout io.Writer) bool {
	if !o.hasTestedFiles() {
		return false
	}
	fmt.Fprintf(stdout, "%s: not run: its files are those of %s, which CI has tested\n", o.name, o.tested)
	return true
}
