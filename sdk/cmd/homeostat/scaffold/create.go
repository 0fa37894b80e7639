package scaffold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

const (
	folderMode = 0o755
	fileMode   = 0o644
)

// create writes the module atomically: after an error nothing is written.
func create(ctx context.Context, op *operator, at location) (err error) {
	files, err := op.files()
	if err != nil {
		return err
	}
	// The draft is beside the final folder, so that relative paths have the same meaning.
	draft, err := os.MkdirTemp(filepath.Dir(at.dir), "."+op.Name+"-*")
	if err != nil {
		return fmt.Errorf("writing the module: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(draft)) }()
	if files["go.sum"], err = at.checksums(); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(draft, folderMode), writeFiles(draft, files)); err != nil {
		return fmt.Errorf("writing the module: %w", err)
	}
	if err := tidy(ctx, draft); err != nil {
		return err
	}
	if !op.Inside && at.homeostat != "" {
		if err := useCheckout(draft, at.homeostat); err != nil {
			return err
		}
	}
	workspace, err := at.workspace(op)
	if err != nil {
		return err
	}
	if err := os.Rename(draft, at.dir); err != nil {
		return fmt.Errorf("writing the module: %w", err)
	}
	if err := writeFiles(at.root, workspace); err != nil {
		return errors.Join(fmt.Errorf("adding the module to the workspace: %w", err), os.RemoveAll(at.dir))
	}
	return nil
}

// writeFiles writes files to a folder and creates missing folders.
func writeFiles(dir string, files map[string][]byte) error {
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), folderMode); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, fileMode); err != nil {
			return err
		}
	}
	return nil
}

// checksums returns the checksums in the go.sum files of the SDK's modules, so that no checksum database is needed. They are
// unique and in the order of the go command, which does not sort them if it has nothing else to change.
func (at *location) checksums() ([]byte, error) {
	if at.homeostat == "" {
		return nil, nil
	}
	hashes := map[module.Version]string{}
	for _, library := range []string{"sdk", "testkit", "testkit/cmd/testkit"} {
		sums, err := os.ReadFile(filepath.Join(at.homeostat, library, "go.sum"))
		if err != nil {
			return nil, fmt.Errorf("reading the checksums of the SDK: %w", err)
		}
		for line := range strings.Lines(string(sums)) {
			if fields := strings.Fields(line); len(fields) == 3 { // path, version, hash
				hashes[module.Version{Path: fields[0], Version: fields[1]}] = fields[2]
			}
		}
	}
	versions := slices.Collect(maps.Keys(hashes))
	module.Sort(versions)
	var all []byte
	for _, v := range versions {
		all = fmt.Appendf(all, "%s %s %s\n", v.Path, v.Version, hashes[v])
	}
	return all, nil
}

// tidy completes go.mod and go.sum.
func tidy(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "tidy")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		why := err.Error()
		if lines := strings.Split(strings.TrimSpace(stderr.String()), "\n"); lines[len(lines)-1] != "" {
			why = strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "go: ")
		}
		return fmt.Errorf("completing go.mod with `go mod tidy`: %s: nothing was written; repair that and try again", why)
	}
	return nil
}

// workspace returns the files of the checkout that list its modules, with this module added. Outside of a checkout the
// result is empty.
func (at *location) workspace(op *operator) (map[string][]byte, error) {
	if at.root == "" {
		return map[string][]byte{}, nil
	}
	data, err := os.ReadFile(filepath.Join(at.root, "go.work"))
	if err != nil {
		return nil, fmt.Errorf("reading the workspace: %w", err)
	}
	work, err := modfile.ParseWork("go.work", data, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the workspace: %w", err)
	}
	if err := work.AddUse("./operators/"+op.Name, ""); err != nil {
		return nil, fmt.Errorf("adding the module to go.work: %w", err)
	}
	work.SortBlocks()
	work.Cleanup()
	rules, err := os.ReadFile(filepath.Join(at.root, ".golangci.yml"))
	if err != nil {
		return nil, fmt.Errorf("reading the linter's rules: %w", err)
	}
	if rules, err = addImportRule(rules, op.Name); err != nil {
		return nil, err
	}
	return map[string][]byte{"go.work": modfile.Format(work.Syntax), ".golangci.yml": rules}, nil
}

// addImportRule inserts a rule for the operator's imports before the rule called everywhere.
func addImportRule(config []byte, name string) ([]byte, error) {
	const before = "        everywhere:\n"
	if !bytes.Contains(config, []byte(before)) {
		return nil, errors.New("adding a rule to .golangci.yml: depguard has none called everywhere, before which it would be")
	}
	rule := strings.ReplaceAll(`        NAME:
          list-mode: lax
          files: ["${config-path}/operators/NAME/**"]
          allow: [github.com/homeostat-dev/homeostat/operators/NAME]
          deny:
            - pkg: github.com/homeostat-dev/homeostat/operators
              desc: operators ship one by one and never import each other
`, "NAME", name)
	return bytes.Replace(config, []byte(before), []byte(rule+before), 1), nil
}

// nextSteps returns the instructions for the user after the command.
func (op *operator) nextSteps(ctx context.Context, at location) string {
	if op.Inside {
		cd := "" // the targets are in the Makefile of the root
		if at.display != filepath.Join("operators", op.Name) {
			cd = "  cd " + at.root + "\n"
		}
		return fmt.Sprintf(`It is in go.work and .golangci.yml now. Next:

%s  make test/operators/%s
  make up
`, cd, op.Name)
	}
	commit := ""
	if !op.Python && !isInRepository(ctx, filepath.Dir(at.dir)) {
		commit = "  git init && git add . && git commit -m 'Add the operator'  # make verify compares with the last commit\n"
	}
	return fmt.Sprintf(`Next:

  cd %s
%s  make test
  make up
`, at.display, commit)
}

// isInRepository reports whether git knows of a work tree that has the folder.
func isInRepository(ctx context.Context, dir string) bool {
	return exec.CommandContext(ctx, "git", "-C", dir, "rev-parse", "--is-inside-work-tree").Run() == nil
}
