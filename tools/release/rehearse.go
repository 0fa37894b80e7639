package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// A rehearsal builds all artifacts of a release.
type rehearsal struct {
	root      string   // of the repository
	tools     string   // the folder of the repository with the programs that build a release
	version   string   // without v
	prefix    string   // the prefix of all image names
	dirs      []string // of the modules, below root
	operators []string // their folders, below root
	out       io.Writer

	folder     string // the output until it is complete
	scratch    string // for temporary files
	repository string // the common path of the modules
	modules    []*goModule
	tags       []string // the existing tags
	plan       plan
}

// path returns a path in the folder of the release, and temp a path of a temporary file.
func (r *rehearsal) path(parts ...string) string {
	return filepath.Join(append([]string{r.folder}, parts...)...)
}

func (r *rehearsal) temp(name string) string { return filepath.Join(r.scratch, name) }

// say prints the next step, because each step takes a while.
func (r *rehearsal) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// writeTo writes the release into a folder. The folder gets all of it or nothing.
func (r *rehearsal) writeTo(ctx context.Context, folder string) (err error) {
	if err := checkReplaceable(folder); err != nil {
		return err
	}
	notes, err := r.check(ctx)
	if err != nil {
		return err
	}
	r.folder = folder + ".unfinished"
	if err := os.RemoveAll(r.folder); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	if r.scratch, err = os.MkdirTemp("", "release"); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.scratch), os.RemoveAll(r.folder)) }()
	for _, dir := range []string{r.folder, r.temp("git"), r.temp("outside")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
	}
	if err := os.WriteFile(r.path("NOTES.md"), []byte(notes), 0o644); err != nil {
		return fmt.Errorf("writing the notes: %w", err)
	}
	if err := r.make(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("making room: %w", err)
	}
	if err := os.Rename(r.folder, folder); err != nil {
		return fmt.Errorf("putting the release in place: %w", err)
	}
	return r.plan.print(r.out)
}

// checkReplaceable rejects a folder that is not empty and not the output of a rehearsal.
func checkReplaceable(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("looking at where the release is written: %w", err)
	}
	if _, err := os.Stat(filepath.Join(folder, planFile)); len(entries) > 0 && err != nil {
		return fmt.Errorf("%s has files that are of no release: name another folder, or remove them", folder)
	}
	return nil
}

// check rejects an impossible release before anything is built, and returns the section of the changelog.
func (r *rehearsal) check(ctx context.Context) (notes string, err error) {
	git := command{dir: r.root}
	out, err := git.run(ctx, "git", "tag", "--list")
	if err != nil {
		return "", err
	}
	r.tags = strings.Fields(out)
	head, err := git.run(ctx, "git", "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	err = checkVersion(r.version, r.tags, func(tag string) bool {
		at, err := git.run(ctx, "git", "rev-parse", "refs/tags/"+tag+"^{commit}")
		return err == nil && at == head
	})
	if err != nil {
		return "", err
	}
	changes, err := git.run(ctx, "git", "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changes != "" {
		return "", fmt.Errorf("the tree is dirty, and what is not committed cannot be released: commit or remove\n%s", changes)
	}
	changelog, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return "", fmt.Errorf("reading what the release brings: %w", err)
	}
	if notes, err = section(string(changelog), r.version); err != nil {
		return "", err
	}
	for _, operator := range r.operators {
		if err := checkBase(r.root, operator, r.version); err != nil {
			return "", err
		}
	}
	if r.modules, err = loadModules(r.root, r.dirs); err != nil {
		return "", err
	}
	if r.repository, err = repositoryOf(r.modules); err != nil {
		return "", err
	}
	r.modules, err = dependencyOrder(r.repository, r.modules)
	return notes, err
}

// make executes all steps that build artifacts.
func (r *rehearsal) make(ctx context.Context) error {
	r.plan = plan{Version: r.version, Repository: r.repository, Prefix: r.prefix}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"modules, which are compiled outside the repository by their tags", r.makeModules},
		{"images", r.makeImages},
		{"lists of what is in the images", r.makeSBOMs},
		{"charts", r.makeCharts},
		{"bundles", r.makeBundles},
		{"the catalog", r.makeCatalog},
		{"manifests", r.makeManifests},
		{"checksums of what people download", r.makePage},
	} {
		r.say("Making %s", step.what)
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	if err := r.plan.write(r.folder); err != nil {
		return err
	}
	return writeSums(r.folder)
}

func (r *rehearsal) file(name string) (file, error) {
	info, err := os.Stat(r.path(name))
	if err != nil {
		return file{}, fmt.Errorf("looking at what was made: %w", err)
	}
	return file{Name: name, Size: info.Size()}, nil
}

func (r *rehearsal) makeModules(ctx context.Context) error {
	s, err := newScratchRepository(ctx, r.root, r.temp("git"))
	if err != nil {
		return err
	}
	r.plan.Base = s.base
	if r.plan.Commit, err = r.tagModules(ctx, s); err != nil {
		return err
	}
	r.plan.Tags = []tag{{Name: "v" + r.version, Commit: s.base}}
	for _, m := range r.modules {
		r.plan.Modules = append(r.plan.Modules, m.dir)
		r.plan.Tags = append(r.plan.Tags, tag{Name: m.tag(r.version), Commit: r.plan.Commit})
	}
	return r.consume(ctx)
}

// latest returns the tags that name the latest release. A pre-release has none.
func (r *rehearsal) latest() []string {
	if semver.Prerelease("v"+r.version) != "" {
		return nil
	}
	return []string{"latest"}
}
