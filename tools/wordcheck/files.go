package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// checkFiles returns a sentence for each violation in the Go files below the root, and an error if a file cannot be read.
func checkFiles(fsys fs.FS) ([]string, error) {
	disabled, err := disabledLinters(fsys)
	if err != nil {
		return nil, err
	}
	c := checker{fset: token.NewFileSet(), disabled: disabled, pronouns: map[string]int{}}
	err = fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == "build" || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		return c.file(fsys, name)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the Go files: %w", err)
	}
	if problem := c.share(); problem != "" {
		c.problems = append(c.problems, problem)
	}
	return c.problems, nil
}

// checker collects the violations of all files.
type checker struct {
	fset     *token.FileSet
	disabled map[string]bool // the linters that are off
	problems []string

	sentences int            // in comments, tests left out
	pronouns  map[string]int // how many of them have a relative or interrogative pronoun, by file
}

func (c *checker) file(fsys fs.FS, name string) error {
	source, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(c.fset, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}
	for _, group := range file.Comments {
		c.directives(group)
		if !strings.HasSuffix(name, "_test.go") {
			c.count(name, group.Text())
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if assign, ok := node.(*ast.AssignStmt); ok && assignsFields(assign) {
			c.report(assign.Pos(), "assigns to several fields at once: write one assignment for each")
		}
		return true
	})
	return nil
}

func (c *checker) report(pos token.Pos, problem string) {
	c.problems = append(c.problems, fmt.Sprintf("%s: %s", c.fset.Position(pos), problem))
}

// assignsFields reports whether the statement assigns values to several operands of which one is a field. A swap and the
// results of one call cannot be written otherwise.
func assignsFields(assign *ast.AssignStmt) bool {
	if assign.Tok != token.ASSIGN || len(assign.Lhs) < 2 || len(assign.Lhs) != len(assign.Rhs) {
		return false
	}
	if slices.Equal(operands(assign.Lhs), operands(assign.Rhs)) {
		return false
	}
	return slices.ContainsFunc(assign.Lhs, func(expr ast.Expr) bool {
		_, ok := expr.(*ast.SelectorExpr)
		return ok
	})
}

// operands returns the expressions as sorted text, so that a swap has the same on both sides.
func operands(exprs []ast.Expr) []string {
	var texts []string
	for _, expr := range exprs {
		texts = append(texts, text(expr))
	}
	slices.Sort(texts)
	return texts
}

func text(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.Ident:
		return expr.Name
	case *ast.SelectorExpr:
		return text(expr.X) + "." + expr.Sel.Name
	case *ast.IndexExpr:
		return text(expr.X) + "[" + text(expr.Index) + "]"
	default:
		return fmt.Sprintf("%T at %d", expr, expr.Pos())
	}
}

// maxShare is the largest share of sentences, in percent, that may contain a relative or interrogative pronoun. The
// projects that this one compares itself with have 3 to 5.
const maxShare = 8

// share returns a sentence if too many sentences have such a pronoun, with the files that have most of them.
func (c *checker) share() string {
	total := 0
	for n := range maps.Values(c.pronouns) {
		total += n
	}
	if total*100 <= c.sentences*maxShare {
		return ""
	}
	files := slices.SortedFunc(maps.Keys(c.pronouns), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.pronouns[b], c.pronouns[a]), cmp.Compare(a, b))
	})
	return fmt.Sprintf("%d of %d sentences in comments contain who, what, which or whose, and the limit is %d %%: "+
		"use nouns as subjects and split sentences, first in %s", total, c.sentences, maxShare,
		strings.Join(files[:min(len(files), 3)], ", "))
}
