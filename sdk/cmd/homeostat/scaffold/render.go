package scaffold

import (
	"bytes"
	"embed"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"text/template"

	"golang.org/x/mod/modfile"
)

//go:embed all:templates
var templates embed.FS

// settle fills in what depends on where the module is.
func (op *operator) settle(at place) {
	op.Inside = at.root != ""
	op.Image, op.SDKVersion = op.Name+":dev", at.version
	if at.homeostat != "" {
		op.Homeostat, op.SDKVersion = filepath.ToSlash(at.homeostat), "v0.0.0"
	}
	if op.Inside {
		op.Module, op.Image, op.Homeostat = ours+"operators/"+op.Name, "homeostat/"+op.Name+":dev", "../.."
	}
}

// files returns what to write, by name with slashes.
func (op *operator) files() (map[string][]byte, error) {
	sets := []string{"templates/operator", "templates/outside"}
	if op.Inside {
		sets[1] = "templates/inside"
	}
	files := map[string][]byte{}
	for _, set := range sets {
		err := fs.WalkDir(templates, set, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := op.render(name)
			if err != nil {
				return fmt.Errorf("filling in %s: %w", name, err)
			}
			files[op.target(strings.TrimPrefix(name, set+"/"))] = content
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// identifiers returns what the Go code calls something, whatever the operator and the kind are called.
func (op *operator) identifiers() (map[string]bool, error) {
	example := *op
	example.Package, example.Var, example.Kind = "thispackage", "thisVariable", "ThisKind"
	files, err := example.files()
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for name, content := range files {
		if path.Ext(name) != ".go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if identifier, ok := n.(*ast.Ident); ok {
				used[identifier.Name] = true
			}
			return true
		})
	}
	return used, nil
}

// target is the name of the file that is made of a template.
func (op *operator) target(name string) string {
	name = strings.TrimSuffix(name, ".tmpl")
	names := strings.NewReplacer("PACKAGE", op.Package, "VERSION", op.Version, "GROUP", op.Group, "PLURAL", op.Plural)
	return names.Replace(name)
}

// render fills in one template. What Go code looks like, gofmt says: how things are aligned depends on how long names are.
func (op *operator) render(name string) ([]byte, error) {
	t, err := template.New(path.Base(name)).Delims("<<", ">>").Option("missingkey=error").
		Funcs(template.FuncMap{"quote": modfile.AutoQuote}).ParseFS(templates, name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, op); err != nil {
		return nil, err
	}
	if !strings.HasSuffix(name, ".go.tmpl") {
		return b.Bytes(), nil
	}
	return format.Source(b.Bytes())
}
