package scaffold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// generate returns the files of the project that controller-gen changes after the given ones are written. It works in a copy
// beside the project, in which relative paths have the same meaning.
func (p *project) generate(ctx context.Context, files map[string][]byte) (changed map[string][]byte, err error) {
	draft, err := os.MkdirTemp(filepath.Dir(p.dir), "."+filepath.Base(p.dir)+"-*")
	if err != nil {
		return nil, fmt.Errorf("copying the project: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(draft)) }()
	before, err := readAll(p.dir)
	if err != nil {
		return nil, fmt.Errorf("copying the project: %w", err)
	}
	if err := errors.Join(writeFiles(draft, before), writeFiles(draft, files)); err != nil {
		return nil, fmt.Errorf("copying the project: %w", err)
	}
	if err := p.runGenerator(ctx, draft); err != nil {
		return nil, err
	}
	after, err := readAll(draft)
	if err != nil {
		return nil, fmt.Errorf("reading what controller-gen has written: %w", err)
	}
	for name, content := range after {
		if old, found := before[name]; found && bytes.Equal(old, content) {
			delete(after, name)
		}
	}
	return after, nil
}

// notCopied are folders without sources.
var notCopied = []string{".git", ".homeostat", "build", "chart", "vendor"}

// readAll returns the files of a folder by their slash-separated names.
func readAll(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	var names []string
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(notCopied, entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		names = append(names, name)
		return nil
	})
	for _, name := range names {
		if err != nil {
			break
		}
		relative := filepath.ToSlash(strings.TrimPrefix(name, dir+string(filepath.Separator)))
		files[relative], err = os.ReadFile(name)
	}
	return files, err
}

var generatorVersion = regexp.MustCompile(`controller-gen@(v[^ \n]+)`)

// runGenerator runs controller-gen as `make generate` does.
func (p *project) runGenerator(ctx context.Context, dir string) error {
	generator := []string{"go", "run", "sigs.k8s.io/controller-tools/cmd/controller-gen@" + controllerGenVersion}
	env := os.Environ()
	if root := checkout(p.dir); root != "" {
		out, err := command(ctx, root, append(env, "GOWORK=off"), "go", "-C", "tools", "tool", "-n", "controller-gen")
		if err != nil {
			return err
		}
		generator = []string{strings.TrimSpace(out)}
		env = append(env, "GOWORK=off") // the workspace does not have the copy
	} else if makefile, err := os.ReadFile(filepath.Join(dir, "Makefile")); err == nil {
		if match := generatorVersion.FindSubmatch(makefile); match != nil {
			generator[2] = "sigs.k8s.io/controller-tools/cmd/controller-gen@" + string(match[1])
		}
	}
	for _, arguments := range [][]string{
		{"object", "paths=./..."},
		{
			"paths=./...", "crd", "output:crd:dir=config/crd", "rbac:roleName=" + p.program, "output:rbac:dir=config/rbac",
			"webhook", "output:webhook:dir=config/webhook",
		},
	} {
		arguments = slices.Concat(generator[1:], arguments)
		if _, err := command(ctx, dir, env, generator[0], arguments...); err != nil {
			return fmt.Errorf("generating the code and the manifests: %w: nothing was written", err)
		}
	}
	return nil
}

// command runs a command in a folder and returns its standard output. The error has the last lines of its output.
func command(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		const maxLines = 10
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, strings.Join(lines[max(0, len(lines)-maxLines):], "\n"))
	}
	return string(out), nil
}
