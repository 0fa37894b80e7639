package sdk_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocListsEveryName checks that the package documentation mentions every exported name of the package in one of its
// sections.
func TestDocListsEveryName(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	p, err := doc.NewFromFiles(set, parsed, "github.com/homeostat-dev/homeostat/sdk")
	if err != nil {
		t.Fatal(err)
	}
	sections := p.Doc[strings.Index(p.Doc, "\n# ")+1:]
	for _, name := range exportedNames(p) {
		if !strings.Contains(sections, "["+name+"]") {
			t.Errorf("no section of doc.go mentions [%s]", name)
		}
	}
}

// exportedNames returns the exported package-level names.
func exportedNames(p *doc.Package) []string {
	var names []string
	values := func(all []*doc.Value) {
		for _, v := range all {
			for _, name := range v.Names {
				if token.IsExported(name) {
					names = append(names, name)
				}
			}
		}
	}
	funcs := func(all []*doc.Func) {
		for _, f := range all {
			names = append(names, f.Name)
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs(p.Funcs)
	for _, typ := range p.Types {
		names = append(names, typ.Name)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
	}
	return names
}
