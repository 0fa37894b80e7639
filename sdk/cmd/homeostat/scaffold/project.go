package scaffold

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gobuffalo/flect"
	"golang.org/x/mod/modfile"
)

// deploymentFile tells where the operator is installed.
const deploymentFile = "config/manager/deployment.yaml"

// project is the module of an operator that exists.
type project struct {
	dir       string
	module    string
	program   string      // the name of the program; empty if cmd/main.go has an unknown form
	operators []*operator // those of its root package and of internal; Var is the variable
	left      []string    // edits that a person makes, in the form of a message
}

// findProject returns the project that contains a folder.
func findProject(dir string) (*project, error) {
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			if _, err := os.Stat(filepath.Join(dir, deploymentFile)); err != nil {
				return nil, usageErrorf("%s is no project of `homeostat new`, because it has no %s: change to the folder of one",
					dir, deploymentFile)
			}
			p := &project{dir: dir, module: modfile.ModulePath(mod)}
			return p, errors.Join(p.findOperators(), p.findProgram())
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil, usageErrorf("this folder is in no project: change to one that `homeostat new` has made")
		}
		dir = parent
	}
}

// findOperators finds the variables of the root package and of the packages in internal that are operators.
func (p *project) findOperators() error {
	folders, err := filepath.Glob(filepath.Join(p.dir, "internal", "*"))
	if err != nil {
		return fmt.Errorf("reading the project: %w", err)
	}
	if err := p.findOperatorsIn(""); err != nil {
		return err
	}
	for _, folder := range folders {
		if err := p.findOperatorsIn("internal/" + filepath.Base(folder) + "/"); err != nil {
			return err
		}
	}
	return nil
}

// findOperatorsIn finds the operators in one folder.
func (p *project) findOperatorsIn(dir string) error {
	files, err := p.parse(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			variables, ok := decl.(*ast.GenDecl)
			if !ok || variables.Tok != token.VAR {
				continue
			}
			for _, spec := range variables.Specs {
				value, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				if op := p.operatorOf(file, value); op != nil {
					op.Dir = dir
					p.operators = append(p.operators, op)
				}
			}
		}
	}
	return nil
}

// parse returns the Go files of a folder without the tests.
func (p *project) parse(folder string) ([]*ast.File, error) {
	names, err := filepath.Glob(filepath.Join(p.dir, filepath.FromSlash(folder), "*.go"))
	if err != nil {
		return nil, fmt.Errorf("reading the project: %w", err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, usageErrorf("the project does not compile: %w: repair that first", err)
		}
		files = append(files, file)
	}
	return files, nil
}

// operatorOf returns the operator of a declaration `V = &sdk.Operator[*version.Kind]{Name: "name"}`, or nil.
func (p *project) operatorOf(file *ast.File, spec *ast.ValueSpec) *operator {
	if len(spec.Names) != 1 || len(spec.Values) != 1 {
		return nil
	}
	address, ok := spec.Values[0].(*ast.UnaryExpr)
	if !ok {
		return nil
	}
	literal, ok := address.X.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	generic, ok := literal.Type.(*ast.IndexExpr)
	if !ok || !isSelector(generic.X, "sdk", "Operator") {
		return nil
	}
	pointer, ok := generic.Index.(*ast.StarExpr)
	if !ok {
		return nil
	}
	kind, ok := pointer.X.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	version, ok := kind.X.(*ast.Ident)
	if !ok {
		return nil
	}
	api := p.apiOf(file, version.Name)
	if api == "" {
		return nil
	}
	return &operator{
		API: api, Name: nameOf(literal), Package: file.Name.Name, Var: spec.Names[0].Name, Module: p.module,
		Kind: kind.Sel.Name, Version: version.Name, Singular: strings.ToLower(kind.Sel.Name),
	}
}

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// apiOf returns the folder of the API package of a version that a file imports, or "".
func (p *project) apiOf(file *ast.File, version string) string {
	for _, i := range file.Imports {
		imported, _ := strconv.Unquote(i.Path.Value)
		folder, found := strings.CutPrefix(imported, p.module+"/")
		if found && strings.HasPrefix(folder, "api/") && path.Base(folder) == version && i.Name == nil {
			return folder
		}
	}
	return ""
}

// findProgram sets the name of the program, which is the argument of program.Named, the field Name of a program.Program, or
// the name of the only operator.
func (p *project) findProgram() error {
	files, err := p.parse("cmd")
	if err != nil {
		return err
	}
	for _, file := range files {
		call := programCall(file)
		switch {
		case call == nil:
			if literal := programLiteral(file); literal != nil {
				p.program = nameOf(literal)
			}
		case isSelector(call.Fun, "program", "Main") && len(p.operators) == 1:
			p.program = p.operators[0].Name
		case isSelector(call.Fun, "program", "Named") && len(call.Args) > 0:
			if name, ok := call.Args[0].(*ast.BasicLit); ok {
				p.program, _ = strconv.Unquote(name.Value) // a number has no name
			}
		}
	}
	return nil
}

// nameOf returns the value of the field Name, if it is a literal.
func nameOf(literal *ast.CompositeLit) string {
	for _, element := range literal.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, _ := field.Key.(*ast.Ident)
		value, ok := field.Value.(*ast.BasicLit)
		if ok && key != nil && key.Name == "Name" {
			name, _ := strconv.Unquote(value.Value) // a number has no name
			return name
		}
	}
	return ""
}

// operator returns the operator of a kind with all its names. An empty kind means the only one.
func (p *project) operator(kind string) (*operator, error) {
	var kinds []string
	for _, op := range p.operators {
		kinds = append(kinds, op.Kind)
		if op.Kind == kind || kind == "" && len(p.operators) == 1 {
			return op, p.complete(op)
		}
	}
	switch {
	case len(kinds) == 0:
		return nil, usageErrorf("%s has no operator: its root package needs a variable such as "+
			"`var Operator = &sdk.Operator[*v1alpha1.WebShop]{Name: \"web-shop\"}`; a function that returns an operator returns a "+
			"copy of it", p.dir)
	case kind == "":
		return nil, usageErrorf("the project has the kinds %s: choose one by --kind", strings.Join(kinds, " and "))
	default:
		return nil, usageErrorf("--kind %q is not a kind of this project, which has %s", kind, strings.Join(kinds, " and "))
	}
}

var pathMarker = regexp.MustCompile(`^// \+kubebuilder:resource:(?:.*,)?path=([^,]+)`)

// complete reads the group, the plural and the scope from the markers of the API package.
func (p *project) complete(op *operator) error {
	op.Program = p.program
	folder := op.API
	files, err := p.parse(folder)
	if err != nil {
		return err
	}
	op.Plural = strings.ToLower(flect.Pluralize(op.Kind))
	op.Group = groupOf(files)
	for _, file := range files {
		for _, line := range markersOf(file, op.Kind) {
			if match := pathMarker.FindStringSubmatch(line); match != nil {
				op.Plural = match[1]
			}
			op.Cluster = op.Cluster || strings.HasPrefix(line, "// +kubebuilder:resource:") && strings.Contains(line, "scope=Cluster")
		}
	}
	switch {
	case op.Group == "":
		return usageErrorf("%s has no line `// +groupName=`: add it above its package clause", folder)
	case p.program == "":
		return usageErrorf("cmd/main.go does not call program.Main with one operator, or program.Named: let it call " +
			"program.Named(\"web-shop\", ...).Main() with the name of the program and all operators, or have a program.Program " +
			"whose field Name is a text such as \"web-shop\"")
	case !nameForm.MatchString(op.Name):
		return usageErrorf("the name of operator %s is not a literal: set its field Name to a text such as \"web-shop\"", op.Var)
	}
	return nil
}

// groupOf returns the API group of a package, or "".
func groupOf(files []*ast.File) string {
	for _, file := range files {
		for _, group := range file.Comments {
			for _, line := range group.List {
				if name, found := strings.CutPrefix(line.Text, "// +groupName="); found {
					return name
				}
			}
		}
	}
	return ""
}

// markersOf returns the comment above a type.
func markersOf(file *ast.File, kind string) []string {
	var lines []string
	for _, decl := range file.Decls {
		types, ok := decl.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE || types.Doc == nil {
			continue
		}
		if spec, ok := types.Specs[0].(*ast.TypeSpec); !ok || spec.Name.Name != kind {
			continue
		}
		for _, line := range types.Doc.List {
			lines = append(lines, line.Text)
		}
	}
	return lines
}

// sample returns the name of a manifest in config/samples that has one object of the kind.
func (p *project) sample(op *operator) (string, error) {
	names, err := filepath.Glob(filepath.Join(p.dir, "config", "samples", "*.yaml"))
	if err != nil {
		return "", fmt.Errorf("reading the samples: %w", err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("reading the samples: %w", err)
		}
		lines := strings.Split(string(content), "\n")
		if slices.Contains(lines, "kind: "+op.Kind) && slices.Contains(lines, "apiVersion: "+op.Group+"/"+op.Version) &&
			!slices.Contains(lines[1:], "---") {
			return "config/samples/" + filepath.Base(name), nil
		}
	}
	return "", usageErrorf("config/samples has no manifest with one %s of %s/%s, which the tests apply: add one",
		op.Kind, op.Group, op.Version)
}

// errNotFound is the error of an edit that does not find its place.
var errNotFound = errors.New("the place is not found")
