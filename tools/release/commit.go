package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A scratch is a repository in which the commit and the tags of a release are made. It has the objects of the one that is
// released, and that one gets none of its.
type scratch struct {
	dir  string
	base string // the commit that is released
	git  command
}

// newScratch makes one in a folder that there is.
func newScratch(ctx context.Context, root, dir string) (*scratch, error) {
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
	s := &scratch{dir: dir, base: base, git: command{dir: dir, env: []string{
		// As the commit that is released: then the same release is the same commit, whoever makes it.
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

// put changes a file of the commit to come.
func (s *scratch) put(ctx context.Context, name string, data []byte) error {
	blob, err := s.git.runWith(ctx, string(data), "git", "hash-object", "-w", "--stdin")
	if err == nil {
		_, err = s.git.run(ctx, "git", "update-index", "--add", "--cacheinfo", "100644,"+blob+","+name)
	}
	return err
}

// commit makes the commit of a release.
func (s *scratch) commit(ctx context.Context, version string) (string, error) {
	tree, err := s.git.run(ctx, "git", "write-tree")
	if err != nil {
		return "", err
	}
	message := "Release " + version + "\n\nThe modules require each other at this version, and are not replaced by folders.\n"
	return s.git.runWith(ctx, message, "git", "commit-tree", "-p", s.base, tree)
}

func (s *scratch) tag(ctx context.Context, name, commit string) error {
	_, err := s.git.run(ctx, "git", "update-ref", "refs/tags/"+name, commit)
	return err
}

// commitModules makes the commit of a release from the go.mod and go.sum files in a folder.
func (s *scratch) commitModules(ctx context.Context, folder, version string, dirs []string) (string, error) {
	for _, dir := range dirs {
		for _, name := range []string{"go.mod", "go.sum"} {
			data, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(dir), name))
			if errors.Is(err, os.ErrNotExist) && name == "go.sum" {
				continue // it requires nothing
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

// push gives tags, by their names, to another repository that has none of them: all or none.
func (s *scratch) push(ctx context.Context, root, remote string, tags []tag) error {
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
