package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// pageSums has the checksums of the page's files, which users download into one folder.
const pageSums = "page/" + sumsFile

// makePage writes the list of the files that users download one by one, and their checksums. All other files are in a
// registry or in git.
func (r *rehearsal) makePage(context.Context) error {
	sums, err := checksums(r.folder)
	if err != nil {
		return err
	}
	var flat bytes.Buffer
	known := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		top, _, _ := strings.Cut(name, "/")
		if !slices.Contains([]string{"charts", "install", "sbom", "catalog.tar", "NOTES.md"}, top) {
			continue
		}
		base := path.Base(name)
		if other := known[base]; other != "" {
			return fmt.Errorf("%s and %s would be one file on the page of the release: give one of them another name", other, name)
		}
		known[base] = name
		fmt.Fprintf(&flat, "%s  %s\n", sum, base)
		f, err := r.file(name)
		if err != nil {
			return err
		}
		r.plan.Files = append(r.plan.Files, f)
	}
	if err := os.Mkdir(r.path("page"), 0o755); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	if err := os.WriteFile(r.path(pageSums), flat.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the checksums: %w", err)
	}
	return nil
}

// makeReleasePage creates or completes the page of a release on the forge from the output of a rehearsal. The page is a
// draft until all files are there. The command gh determines the repository from root.
func makeReleasePage(ctx context.Context, root, folder string) error {
	if err := checkSums(folder); err != nil {
		return err
	}
	plan, err := readPlan(folder)
	if err != nil {
		return err
	}
	tag, at := "v"+plan.Version, command{dir: root}
	if _, err := at.run(ctx, "gh", "release", "view", tag); err != nil { // there is none, or create reports the reason
		args := []string{"release", "create", tag, "--draft", "--verify-tag", "--title", tag}
		args = append(args, "--notes-file", filepath.Join(folder, "NOTES.md"))
		if semver.Prerelease(tag) != "" {
			args = append(args, "--prerelease")
		}
		if _, err := at.run(ctx, "gh", args...); err != nil {
			return err
		}
	}
	upload := []string{"release", "upload", tag, "--clobber", filepath.Join(folder, filepath.FromSlash(pageSums))}
	for _, f := range plan.Files {
		upload = append(upload, filepath.Join(folder, filepath.FromSlash(f.Name)))
	}
	if _, err := at.run(ctx, "gh", upload...); err != nil {
		return err
	}
	_, err = at.run(ctx, "gh", "release", "edit", tag, "--draft=false")
	return err
}
