package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

// Former finds the programs of versions that were released, which it builds from the history of the repository. It may be
// used from several goroutines.
type Former struct {
	// Released is the folder with the bundles that were released, and the README that says of which commits.
	Released string
	// Notice is told what takes time, and which commit there is not.
	Notice func(string)

	mu sync.Mutex
}

// Program returns the program of an image, and nothing if no bundle that was released has the image, or if the repository's
// history does not have the commit, as in a shallow clone: upgrades then begin with today's program, of which make olm-test
// warns.
func (f *Former) Program(ctx context.Context, image string) (string, error) {
	operator, version, err := f.find(image)
	if err != nil || operator == "" {
		return "", err
	}
	return f.program(ctx, operator, version)
}

// Build builds the programs of all bundles, so that they are there when they are asked for.
func (f *Former) Build(ctx context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(f.Released, "*", "v*"))
	if err != nil {
		return fmt.Errorf("looking for bundles that were released: %w", err)
	}
	for _, dir := range dirs {
		if _, err := f.program(ctx, filepath.Base(filepath.Dir(dir)), filepath.Base(dir)); err != nil {
			return err
		}
	}
	return nil
}

func (f *Former) program(ctx context.Context, operator, version string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	commit, err := f.commit(version)
	if err != nil {
		return "", err
	}
	source, err := f.source(ctx, commit)
	if err != nil || source == "" {
		return "", err
	}
	project, err := sandbox.Load(ctx, filepath.Join(source, "operators", operator))
	if err != nil {
		return "", fmt.Errorf("looking for %s %s: %w", operator, version, err)
	}
	return project.Build(ctx) //nolint:wrapcheck // says what it was doing
}

// find returns what the bundle is of that runs the image.
func (f *Former) find(image string) (operator, version string, err error) {
	files, err := filepath.Glob(filepath.Join(f.Released, "*", "v*", "manifests", "*.clusterserviceversion.yaml"))
	if err != nil {
		return "", "", fmt.Errorf("looking for bundles that were released: %w", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", "", fmt.Errorf("looking for bundles that were released: %w", err)
		}
		if bytes.Contains(data, []byte("image: "+image+"\n")) {
			dir := filepath.Dir(filepath.Dir(file))
			return filepath.Base(filepath.Dir(dir)), filepath.Base(dir), nil
		}
	}
	return "", "", nil
}

func (f *Former) commit(version string) (string, error) {
	data, err := os.ReadFile(filepath.Join(f.Released, "README.md"))
	if err != nil {
		return "", fmt.Errorf("looking for the commit of %s: %w", version, err)
	}
	row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(version) + ` \| ([0-9a-f]{40}) \|$`).FindSubmatch(data)
	if row == nil {
		return "", fmt.Errorf("%s/README.md does not say which commit %s is", f.Released, version)
	}
	return string(row[1]), nil
}

// source returns a folder with the repository as it was in a commit, and nothing if the history does not have it.
func (f *Former) source(ctx context.Context, commit string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("looking for the user's cache: %w", err)
	}
	dir := filepath.Join(cache, "homeostat", "olm", "source-"+commit)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := f.git(ctx, "cat-file", "-e", commit).Run(); err != nil {
		f.Notice("commit " + commit + " is not in the history of this clone (git fetch --unshallow gets it): today's program " +
			"takes the place of the former one")
		return "", nil
	}
	f.Notice("getting commit " + commit + " for the programs of a former version")
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return "", fmt.Errorf("making a folder in the user's cache: %w", err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "source-")
	if err != nil {
		return "", fmt.Errorf("making a folder in the user's cache: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	archive := filepath.Join(temp, "archive.tar")
	top, err := f.git(ctx, "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("looking for the repository: %w", err)
	}
	// Elsewhere git archives that folder alone.
	get := exec.CommandContext(ctx, "git", "-C", strings.TrimSpace(string(top)), "archive", "--output="+archive, commit)
	if out, err := get.CombinedOutput(); err != nil {
		return "", fmt.Errorf("getting commit %s: %w: %s", commit, err, out)
	}
	if out, err := exec.CommandContext(ctx, "tar", "-x", "-C", temp, "-f", archive).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpacking commit %s: %w: %s", commit, err, out)
	}
	err = errors.Join(os.Remove(archive), os.Rename(temp, dir))
	if _, there := os.Stat(dir); err != nil && there != nil { // unless somebody else was faster
		return "", fmt.Errorf("keeping commit %s: %w", commit, err)
	}
	return dir, nil
}

// git works in the folder of the bundles, wherever in the repository that is.
func (f *Former) git(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "git", append([]string{"-C", f.Released}, args...)...)
}
