package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A scratchRepository is a repository for the commit and the tags of a release. It shares the objects of the released
// repository, which gets none of its own.
type scratchRepository struct {
	dir  string
	base string // the commit being released
	git  command
}

// newScratchRepository creates a repository in an existing folder.
func newScratchRepository(ctx context.Context, root, dir string) (*scratchRepository, error) {
	at := command{dir: root}
	base, err := at.run(ctx, "git", "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	objects, err := at.run(ctx, "git", "rev-parse", "--path-format=absolute", "--git-path", "objects")
	if err != nil {
		return nil, err
	}
	about, err := at.run(ctx, "git", "log", "-1", "--format=%cn%n%ce%n%cI")
	if err != nil {
		return nil, err
	}
	who := strings.Split(about, "\n")
	if len(who) != 3 {
		return nil, fmt.Errorf("the commit %s has no committer", base)
	}
	s := &scratchRepository{dir: dir, base: base, git: command{dir: dir, env: []string{
		// Author and date are those of the released commit, so that the same release is the same commit on any machine.
		"GIT_AUTHOR_NAME=" + who[0], "GIT_AUTHOR_EMAIL=" + who[1], "GIT_AUTHOR_DATE=" + who[2],
		"GIT_COMMITTER_NAME=" + who[0], "GIT_COMMITTER_EMAIL=" + who[1], "GIT_COMMITTER_DATE=" + who[2],
		"GIT_DIR=" + dir, "GIT_INDEX_FILE=" + filepath.Join(dir, "release-index"),
	}}}
	if _, err := s.git.run(ctx, "git", "init", "--quiet", "--bare", dir); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "objects", "info", "alternates"), []byte(objects+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("preparing a repository: %w", err)
	}
	_, err = s.git.run(ctx, "git", "read-tree", base)
	return s, err
}

// put changes a file of the next commit.
func (s *scratchRepository) put(ctx context.Context, name string, data []byte) error {
	blob, err := s.git.runWithInput(ctx, string(data), "git", "hash-object", "-w", "--stdin")
	if err == nil {
		_, err = s.git.run(ctx, "git", "update-index", "--add", "--cacheinfo", "100644,"+blob+","+name)
	}
	return err
}

// commit creates the commit of a release.
func (s *scratchRepository) commit(ctx context.Context, version string) (string, error) {
	tree, err := s.git.run(ctx, "git", "write-tree")
	if err != nil {
		return "", err
	}
	message := "Release " + version + "\n\nThe modules require each other at this version, and are not replaced by folders.\n"
	return s.git.runWithInput(ctx, message, "git", "commit-tree", "-p", s.base, tree)
}

func (s *scratchRepository) tag(ctx context.Context, name, commit string) error {
	_, err := s.git.run(ctx, "git", "update-ref", "refs/tags/"+name, commit)
	return err
}

// commitModules creates the commit of a release from the go.mod and go.sum files in a folder.
func (s *scratchRepository) commitModules(ctx context.Context, folder, version string, dirs []string) (string, error) {
	for _, dir := range dirs {
		for _, name := range []string{"go.mod", "go.sum"} {
			data, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(dir), name))
			if errors.Is(err, os.ErrNotExist) && name == "go.sum" {
				continue // it requires no module
			}
			if err != nil {
				return "", fmt.Errorf("reading a module of the release: %w", err)
			}
			if err := s.put(ctx, dir+"/"+name, data); err != nil {
				return "", err
			}
		}
	}
	return s.commit(ctx, version)
}

// push pushes tags, by their names, to another repository that has none of them. It is atomic.
func (s *scratchRepository) push(ctx context.Context, root, remote string, tags []tag) error {
	if len(tags) == 0 {
		return nil
	}
	at := command{dir: root, env: []string{"GIT_ALTERNATE_OBJECT_DIRECTORIES=" + filepath.Join(s.dir, "objects")}}
	args := []string{"push", "--quiet", "--atomic", remote}
	for _, t := range tags {
		args = append(args, t.Commit+":refs/tags/"+t.Name)
	}
	_, err := at.run(ctx, "git", args...)
	return err
}
