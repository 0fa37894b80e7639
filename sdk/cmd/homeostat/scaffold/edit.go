package scaffold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// edit is an insertion into a file of the user.
type edit struct {
	file     string // slash-separated
	optional bool   // whether a project without the file is complete

	by    string // what a person does by hand: one sentence and the lines
	apply func([]byte) ([]byte, error)
}

// insertAfter inserts lines after the anchor, which are whole lines and must occur once. If the inserted lines are there
// already, nothing changes.
func insertAfter(anchor, lines string) func([]byte) ([]byte, error) {
	return func(content []byte) ([]byte, error) {
		if bytes.Contains(content, []byte(lines)) {
			return content, nil
		}
		if len(content) > 0 && content[len(content)-1] != '\n' {
			content = append(slices.Clone(content), '\n')
		}
		const start = "\n" // of the anchor's line
		content = append([]byte(start), content...)
		if bytes.Count(content, []byte(start+anchor)) != 1 {
			return nil, errNotFound
		}
		return bytes.Replace(content, []byte(anchor), []byte(anchor+lines), 1)[len(start):], nil
	}
}

// replaceOperator replaces the argument of program.Main, an operator of package from, by the Operator of another package of
// the module.
func replaceOperator(module, from, variable, to string) func([]byte) ([]byte, error) {
	return func(content []byte) ([]byte, error) {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "", content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, errNotFound
		}
		spec := importOf(file, module)
		argument, replaced := mainArgument(file, from, variable, filepath.Base(to))
		if replaced {
			return content, nil
		}
		if argument == nil || spec == nil || spec.Name != nil {
			return nil, errNotFound
		}
		imported := strconv.Quote(module + "/" + to)
		if uses(file, from) > 1 { // the import remains
			imported = strconv.Quote(module) + "\n\t" + imported
		}
		// The import precedes the call.
		offset := func(p token.Pos) int { return fset.Position(p).Offset }
		out := slices.Concat(content[:offset(spec.Path.Pos())], []byte(imported),
			content[offset(spec.Path.End()):offset(argument.Pos())], []byte(filepath.Base(to)+".Operator"),
			content[offset(argument.End()):])
		return format.Source(out)
	}
}

func importOf(file *ast.File, path string) *ast.ImportSpec {
	for _, spec := range file.Imports {
		if spec.Path.Value == strconv.Quote(path) {
			return spec
		}
	}
	return nil
}

// mainArgument returns the argument of the call program.Main that is the operator, or whether it is the new one already.
func mainArgument(file *ast.File, from, variable, to string) (found ast.Expr, replaced bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !isSelector(call.Fun, "program", "Main") {
			return true
		}
		for _, argument := range call.Args {
			if isSelector(argument, from, variable) {
				found = argument
			}
			replaced = replaced || isSelector(argument, to, "Operator")
		}
		return true
	})
	return found, replaced
}

// uses returns the number of selectors of a package.
func uses(file *ast.File, pkg string) int {
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		if s, ok := node.(*ast.SelectorExpr); ok && isSelector(s, pkg, s.Sel.Name) {
			n++
		}
		return true
	})
	return n
}

// write creates files and applies edits. After an error the project is unchanged. Optional edits of
// files that do not exist are left out.
func (p *project) write(files map[string][]byte, edits []edit) error {
	for name := range files {
		if _, err := os.Lstat(filepath.Join(p.dir, filepath.FromSlash(name))); err == nil {
			return usageErrorf("%s exists, and nothing is overwritten: nothing was written", name)
		}
	}
	before, after := map[string][]byte{}, map[string][]byte{}
	var missed []string
	for _, e := range edits {
		content, found := after[e.file]
		if !found {
			var err error
			content, err = os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(e.file)))
			switch {
			case errors.Is(err, fs.ErrNotExist) && e.optional:
				continue
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				return fmt.Errorf("reading the project: %w", err)
			}
			before[e.file] = content
		}
		changed, err := e.apply(content)
		if err != nil {
			missed = append(missed, e.file+": "+e.by)
			continue
		}
		after[e.file] = changed
	}
	if len(missed) > 0 {
		return usageErrorf("nothing was written, because the place of these lines is not found: "+
			"add them by hand, commit them and repeat the command\n\n%s", strings.Join(missed, "\n"))
	}
	err := errors.Join(writeFiles(p.dir, files), writeFiles(p.dir, after))
	if err == nil {
		return nil
	}
	for name := range files {
		err = errors.Join(err, removeIfExists(filepath.Join(p.dir, filepath.FromSlash(name))))
	}
	return fmt.Errorf("writing the project: %w", errors.Join(err, writeFiles(p.dir, before)))
}

func removeIfExists(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// checkClean returns an error if git knows of changes in the project. A project without git is not checked.
func (p *project) checkClean(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ".")
	cmd.Dir = p.dir
	if out, err := cmd.Output(); err == nil && len(bytes.TrimSpace(out)) > 0 {
		return usageErrorf("the project has changes that are not committed: commit or stash them, so that `git diff` shows " +
			"what this command writes")
	}
	return nil
}
