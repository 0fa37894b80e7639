package scaffold

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// storageMarker is the marker of the version that is stored.
const storageMarker = "// +kubebuilder:storageversion"

// copyTypes returns the files with the Go types of the kind for the new version, and the edit that marks the old one as
// stored.
func (p *project) copyTypes(op *operator, v *newVersion) (map[string][]byte, []edit, error) {
	names, err := filepath.Glob(filepath.Join(p.dir, filepath.FromSlash(op.API), "*.go"))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the API package: %w", err)
	}
	all := map[string]*ast.File{}
	contents := map[string][]byte{}
	fset := token.NewFileSet()
	for _, name := range names {
		base := filepath.Base(name)
		if strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "zz_generated") {
			continue
		}
		if contents[base], err = os.ReadFile(name); err != nil {
			return nil, nil, fmt.Errorf("reading the API package: %w", err)
		}
		all[base], err = parser.ParseFile(fset, name, contents[base], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, usageErrorf("the project does not compile: %w: repair that first", err)
		}
	}
	copies := map[string][]byte{}
	var marker []edit
	for _, base := range filesOf(all, op.Kind) {
		for _, other := range p.inPackage(op.API) {
			if other.Kind != op.Kind && typeOf(all[base], other.Kind) != nil {
				return nil, nil, usageErrorf("%s/%s has the kind %s, and is needed for %s: move the kind to a file of its own",
					op.API, base, other.Kind, op.Kind)
			}
		}
		if declaration := typeOf(all[base], op.Kind); declaration != nil && !p.isStored(op) {
			at := fset.Position(declaration.Pos()).Offset
			marker = append(marker, edit{file: op.API + "/" + base, apply: func(content []byte) ([]byte, error) {
				return slices.Concat(content[:at], []byte(storageMarker+"\n"), content[at:]), nil
			}})
		}
		clause := all[base].Name
		begin, end := fset.Position(clause.Pos()).Offset, fset.Position(clause.End()).Offset
		content := slices.Concat(contents[base][:begin], []byte(v.Version), contents[base][end:])
		copies[v.API+"/"+base] = bytes.ReplaceAll(content, []byte(storageMarker+"\n"), nil)
	}
	return copies, marker, nil
}

// isStored reports whether a version of the kind has the marker of the storage version.
func (p *project) isStored(op *operator) bool {
	folders, _ := filepath.Glob(filepath.Join(p.dir, filepath.FromSlash(path.Dir(op.API)), "*")) // the pattern is valid
	for _, folder := range folders {
		files, err := p.parse(path.Join(path.Dir(op.API), filepath.Base(folder)))
		if err == nil && slices.ContainsFunc(files, func(f *ast.File) bool {
			return slices.Contains(markersOf(f, op.Kind), storageMarker)
		}) {
			return true
		}
	}
	return false
}

// typeOf returns the declaration of a type, or nil.
func typeOf(file *ast.File, name string) *ast.GenDecl {
	for _, decl := range file.Decls {
		types, ok := decl.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE {
			continue
		}
		if spec, ok := types.Specs[0].(*ast.TypeSpec); ok && spec.Name.Name == name {
			return types
		}
	}
	return nil
}

// filesOf returns the names of the files that the types of a kind need, in order: those with the types and constants that
// they name, directly or not, and with their methods. A file that registers types is not one of them.
func filesOf(files map[string]*ast.File, kind string) []string {
	needed := map[string]bool{kind: true, kind + "List": true}
	found := map[string]bool{}
	for before := -1; before < len(needed); {
		before = len(needed)
		for base, file := range files {
			if base == "doc.go" || declares(file, map[string]bool{"AddToScheme": true}) {
				continue
			}
			if !declares(file, needed) {
				continue
			}
			found[base] = true
			ast.Inspect(file, func(n ast.Node) bool {
				if identifier, ok := n.(*ast.Ident); ok && isDeclared(files, identifier.Name) {
					needed[identifier.Name] = true
				}
				return true
			})
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func isDeclared(files map[string]*ast.File, name string) bool {
	for _, file := range files {
		if declares(file, map[string]bool{name: true}) {
			return true
		}
	}
	return false
}

// declares reports whether a file declares one of the names, or a method of one.
func declares(file *ast.File, names map[string]bool) bool {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && names[d.Name.Name] || d.Recv != nil && names[receiverOf(d)] {
				return true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if names[s.Name.Name] {
						return true
					}
				case *ast.ValueSpec:
					if slices.ContainsFunc(s.Names, func(i *ast.Ident) bool { return names[i.Name] }) {
						return true
					}
				}
			}
		}
	}
	return false
}

func receiverOf(d *ast.FuncDecl) string {
	of := d.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	name, _ := of.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}
