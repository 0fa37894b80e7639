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

// PreviousRelease finds the programs of released versions, and builds them from the history of the repository. It is safe
// for concurrent use.
type PreviousRelease struct {
	// Released is the folder with the released bundles, and the README that lists their commits.
	Released string
	// Notice is called before steps that take long, and for a commit that is missing.
	Notice func(string)

	mu sync.Mutex
}

// Program returns the program of an image. It returns "" if no released bundle has the image, or if the repository's history
// does not have the commit, as in a shallow clone. Upgrades then begin with the current program, and make olm-test warns
// about it.
func (r *PreviousRelease) Program(ctx context.Context, image string) (string, error) {
	operator, version, err := r.find(image)
	if err != nil || operator == "" {
		return "", err
	}
	return r.program(ctx, operator, version)
}

// Build builds the programs of all bundles in advance.
func (r *PreviousRelease) Build(ctx context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(r.Released, "*", "v*"))
	if err != nil {
		return fmt.Errorf("looking for bundles that were released: %w", err)
	}
	for _, dir := range dirs {
		if _, err := r.program(ctx, filepath.Base(filepath.Dir(dir)), filepath.Base(dir)); err != nil {
			return err
		}
	}
	return nil
}

func (r *PreviousRelease) program(ctx context.Context, operator, version string) (string, error) {
	project, err := r.Project(ctx, operator, version)
	if err != nil || project == nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return project.Build(ctx)
}

// Project returns an operator as it was released in a version such as v0.1.0. It returns nil if the repository's history
// does not have the commit.
func (r *PreviousRelease) Project(ctx context.Context, operator, version string) (*sandbox.Project, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	commit, err := r.commit(version)
	if err != nil {
		return nil, err
	}
	source, err := r.source(ctx, commit)
	if err != nil || source == "" {
		return nil, err
	}
	project, err := sandbox.Load(ctx, filepath.Join(source, "operators", operator))
	if err != nil {
		return nil, fmt.Errorf("looking for %s %s: %w", operator, version, err)
	}
	return project, nil
}

// find returns the operator and the version of the bundle that runs the image.
func (r *PreviousRelease) find(image string) (operator, version string, err error) {
	files, err := filepath.Glob(filepath.Join(r.Released, "*", "v*", "manifests", "*.clusterserviceversion.yaml"))
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

func (r *PreviousRelease) commit(version string) (string, error) {
	data, err := os.ReadFile(filepath.Join(r.Released, "README.md"))
	if err != nil {
		return "", fmt.Errorf("looking for the commit of %s: %w", version, err)
	}
	row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(version) + ` \| ([0-9a-f]{40}) \|$`).FindSubmatch(data)
	if row == nil {
		return "", fmt.Errorf("%s/README.md does not say which commit %s is", r.Released, version)
	}
	return string(row[1]), nil
}

// source returns a folder with the repository at a commit, and "" if the history does not have the commit.
func (r *PreviousRelease) source(ctx context.Context, commit string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("looking for the user's cache: %w", err)
	}
	dir := filepath.Join(cache, "homeostat", "olm", "source-"+commit)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := r.git(ctx, "cat-file", "-e", commit).Run(); err != nil {
		r.Notice("commit " + commit + " is not in the history of this clone (git fetch --unshallow gets it): today's program " +
			"takes the place of the former one")
		return "", nil
	}
	r.Notice("getting commit " + commit + " for the programs of a former version")
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return "", fmt.Errorf("making a folder in the user's cache: %w", err)
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "source-")
	if err != nil {
		return "", fmt.Errorf("making a folder in the user's cache: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	archive := filepath.Join(temp, "archive.tar")
	top, err := r.git(ctx, "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("looking for the repository: %w", err)
	}
	// In another folder, git would archive that folder only.
	get := exec.CommandContext(ctx, "git", "-C", strings.TrimSpace(string(top)), "archive", "--output="+archive, commit)
	if out, err := get.CombinedOutput(); err != nil {
		return "", fmt.Errorf("getting commit %s: %w: %s", commit, err, out)
	}
	if out, err := exec.CommandContext(ctx, "tar", "-x", "-C", temp, "-f", archive).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpacking commit %s: %w: %s", commit, err, out)
	}
	err = errors.Join(os.Remove(archive), os.Rename(temp, dir))
	if _, there := os.Stat(dir); err != nil && there != nil { // unless another process was faster
		return "", fmt.Errorf("keeping commit %s: %w", commit, err)
	}
	return dir, nil
}

// git returns a git command in the folder of the bundles, so that it works from any folder of the repository.
func (r *PreviousRelease) git(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "git", append([]string{"-C", r.Released}, args...)...)
}
