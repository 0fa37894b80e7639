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
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// edit is an insertion into a file of the user.
type edit struct {
	file     string // slash-separated
	optional bool   // whether a project without the file is complete
	hint     bool   // whether the text may be missing, because it only describes the project
	later    bool   // whether a person inserts the text after the files are written, because it imports one of their packages

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

// insertFields appends fields, such as "Name: value", to the first composite literal of a type, which may be
// generic. A field that is there already is left out.
func insertFields(pkg, name string, fields []string) func([]byte) ([]byte, error) {
	return func(content []byte) ([]byte, error) {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "", content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, errNotFound
		}
		literal := literalOf(file, pkg, name)
		if literal == nil {
			return nil, errNotFound
		}
		var lines strings.Builder
		if len(literal.Elts) > 0 {
			lines.WriteString(",\n")
		}
		for _, field := range fields {
			key, _, _ := strings.Cut(field, ":")
			if !slices.ContainsFunc(literal.Elts, func(e ast.Expr) bool { return isKey(e, key) }) {
				lines.WriteString("\t" + field + ",\n")
			}
		}
		end := fset.Position(literal.Rbrace).Offset
		before := bytes.TrimRight(content[:end], ", \t\n")
		return slices.Concat(before, []byte(lines.String()), content[end:]), nil
	}
}

func literalOf(file *ast.File, pkg, name string) (found *ast.CompositeLit) {
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok || found != nil {
			return found == nil
		}
		of := literal.Type
		if generic, ok := of.(*ast.IndexExpr); ok {
			of = generic.X
		}
		if of != nil && isSelector(of, pkg, name) {
			found = literal
		}
		return true
	})
	return found
}

func isKey(e ast.Expr, name string) bool {
	field, ok := e.(*ast.KeyValueExpr)
	if !ok {
		return false
	}
	key, ok := field.Key.(*ast.Ident)
	return ok && key.Name == name
}

// replaceOperator replaces the argument of program.Main, an operator of package from, by the Operator of another package of
// the module.
func replaceOperator(module, imported, from, variable, to string) func([]byte) ([]byte, error) {
	return func(content []byte) ([]byte, error) {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "", content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, errNotFound
		}
		spec := importOf(file, imported)
		argument, replaced := mainArgument(file, from, variable, filepath.Base(to))
		if replaced || programLiteral(file) != nil && uses(file, filepath.Base(to)) > 0 {
			return content, nil
		}
		if argument == nil || spec == nil || spec.Name != nil {
			return nil, errNotFound
		}
		replacement := strconv.Quote(module + "/" + to)
		if uses(file, from) > 1 { // the import remains
			replacement = spec.Path.Value + "\n\t" + replacement
		}
		// The import precedes the call.
		offset := func(p token.Pos) int { return fset.Position(p).Offset }
		out := slices.Concat(content[:offset(spec.Path.Pos())], []byte(replacement),
			content[offset(spec.Path.End()):offset(argument.Pos())], []byte(filepath.Base(to)+".Operator"),
			content[offset(argument.End()):])
		return out, nil
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

// mainArgument returns the argument of the call of the program that is the operator, or whether it is the new one already.
func mainArgument(file *ast.File, from, variable, to string) (found ast.Expr, replaced bool) {
	call := programCall(file)
	if call == nil {
		return nil, false
	}
	for _, argument := range call.Args {
		if isSelector(argument, from, variable) {
			found = argument
		}
		replaced = replaced || isSelector(argument, to, "Operator")
	}
	return found, replaced
}

// programCall returns the call of program.Main or program.Named, or nil.
func programCall(file *ast.File) (found *ast.CallExpr) {
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok &&
			(isSelector(call.Fun, "program", "Main") || isSelector(call.Fun, "program", "Named")) {
			found = call
		}
		return true
	})
	return found
}

// programLiteral returns the composite literal of a program.Program, or nil.
func programLiteral(file *ast.File) (found *ast.CompositeLit) {
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.CompositeLit); ok && isSelector(literal.Type, "program", "Program") {
			found = literal
		}
		return true
	})
	return found
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

// apply returns the new files together with the files that the edits change. Optional edits whose file is not found,
// and hints whose place is not found, are left out. Later edits whose place is not found are added to p.left.
func (p *project) apply(files map[string][]byte, edits []edit) (map[string][]byte, error) {
	for name := range files {
		if _, err := os.Lstat(filepath.Join(p.dir, filepath.FromSlash(name))); err == nil {
			return nil, usageErrorf("%s exists, and nothing is overwritten: nothing was written", name)
		}
	}
	all := maps.Clone(files)
	var missed []string
	for _, e := range edits {
		content, found := all[e.file]
		if !found {
			var err error
			content, err = os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(e.file)))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("reading the project: %w", err)
			}
			if err != nil && e.optional {
				continue
			}
		}
		changed, err := e.apply(content)
		if err == nil && path.Ext(e.file) == ".go" {
			changed, err = format.Source(changed)
		}
		switch {
		case err == nil:
			all[e.file] = changed
		case e.later:
			p.left = append(p.left, e.file+": "+e.by)
		case !e.hint:
			missed = append(missed, e.file+": "+e.by)
		}
	}
	if len(missed) > 0 {
		return nil, usageErrorf("nothing was written, because the place of these lines is not found: "+
			"add them by hand, commit them and repeat the command\n\n%s", strings.Join(missed, "\n"))
	}
	return all, nil
}

// next returns the end of a command's output: what it left to a person, and the further steps, which are whole lines.
func (p *project) next(steps string) string {
	steps = "Next:\n\n" + steps
	if len(p.left) == 0 {
		return " " + steps
	}
	return "\n\nThe place of these lines is not found: add them by hand.\n\n" + strings.Join(p.left, "\n") + "\n\n" + steps
}

// write writes files of the project. After an error the project is unchanged.
func (p *project) write(files map[string][]byte) error {
	before := map[string][]byte{}
	for name := range files {
		content, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(name)))
		if err == nil {
			before[name] = content
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reading the project: %w", err)
		}
	}
	err := writeFiles(p.dir, files)
	if err == nil {
		return nil
	}
	for name := range files {
		if _, existed := before[name]; !existed {
			err = errors.Join(err, removeIfExists(filepath.Join(p.dir, filepath.FromSlash(name))))
		}
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
