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

// setLocation sets the fields that depend on the location of the module.
func (op *operator) setLocation(at location) {
	op.Inside = at.root != ""
	op.Image = "registry.invalid/" + op.Name + ":dev" // no registry has that name: nothing is pulled by mistake
	op.SDKVersion = at.version
	op.Ref = at.commit
	if at.homeostat != "" {
		op.Homeostat = filepath.ToSlash(at.homeostat)
		op.SDKVersion = "v0.0.0"
	}
	if op.Inside {
		op.Module = modulePrefix + "operators/" + op.Name
		op.Image = "registry.invalid/homeostat/" + op.Name + ":dev"
		op.Homeostat = "../.."
	}
}

// files returns the content of the files to write, by slash-separated name.
func (op *operator) files() (map[string][]byte, error) {
	if op.Python {
		return op.pythonFiles()
	}
	return renderSets(op, op, op.sets()...)
}

// sets returns the names of the template folders of a new project.
func (op *operator) sets() []string {
	if op.Inside {
		return []string{"operator", "kind", "api", "inside"}
	}
	return []string{"operator", "kind", "api", "outside"}
}

// renderSets executes the templates of several folders.
func renderSets(op *operator, data any, sets ...string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, set := range sets {
		if err := renderSet("templates/"+set, op, data, files); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// renderSet executes the templates of a folder, and adds the files.
func renderSet(set string, op *operator, data any, files map[string][]byte) error {
	return fs.WalkDir(templates, set, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := render(name, data)
		if err != nil {
			return fmt.Errorf("filling in %s: %w", name, err)
		}
		if len(content) > 0 { // the file is for another scope
			files[op.fileName(strings.TrimPrefix(name, set+"/"))] = content
		}
		return nil
	})
}

// identifiers returns the identifiers of the Go code that do not depend on the names of the operator and the kind.
func (op *operator) identifiers(sets ...string) (map[string]bool, error) {
	example := *op
	example.Package = "thispackage"
	example.Var = "thisVariable"
	example.Kind = "ThisKind"
	files, err := renderSets(&example, &example, sets...)
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

// fileName returns the name of the file for a template.
func (op *operator) fileName(name string) string {
	name = strings.TrimSuffix(name, ".tmpl")
	admission := op.API + "/"
	if op.Dir != "" { // tests with another TestMain are in the API package
		admission = op.Dir
	}
	names := strings.NewReplacer(
		"DIR/", op.Dir, "ADMISSION/", admission, "DESIRED/", op.Desired()+"/", "API/", op.API+"/",
		"HOOKS/", op.HooksDir()+"/",
		"SAMPLE", op.Sample(), "PREFIX", op.Prefix(),
		"PACKAGE", op.Package, "VERSION", op.Version, "GROUP", op.Group,
		"PLURAL", op.Plural, "SINGULAR", op.Singular, "NAME", op.Name)
	return names.Replace(name)
}

// render executes one template. Go code is formatted afterwards, because its alignment depends on the length of names.
func render(name string, data any) ([]byte, error) {
	t, err := template.New(path.Base(name)).Delims("<<", ">>").Option("missingkey=error").
		Funcs(template.FuncMap{"quote": modfile.AutoQuote, "join": strings.Join}).ParseFS(templates, name, "templates/*.md.tmpl")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(b.Bytes())) == 0 {
		return nil, nil
	}
	if !strings.HasSuffix(name, ".go.tmpl") {
		return b.Bytes(), nil
	}
	return format.Source(b.Bytes())
}
