package scaffold

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// newVersion is a version that is added to a kind. It is the input of its templates.
type newVersion struct {
	*operator // with the new version

	OldVersion, OldAPI, OldSampleFile, SampleFile string
}

// addVersion executes the command `homeostat add version`.
func addVersion(ctx context.Context, args []string, stdout io.Writer) error {
	var kind string
	flags := flag.NewFlagSet("add version", flag.ContinueOnError)
	flags.StringVar(&kind, "kind", "", "")
	version, err := parseName(flags, args)
	if err != nil {
		return err
	}
	if version == "" {
		return usageErrorf("give the name of the version, for example `homeostat add version v1beta1`")
	}
	p, err := openProject()
	if err != nil {
		return err
	}
	op, err := p.operator(kind)
	if err != nil {
		return err
	}
	v, err := p.newVersion(op, version)
	if err != nil {
		return err
	}
	if err := p.checkClean(ctx); err != nil {
		return err
	}
	files, err := p.versionFiles(op, v)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Generating the code and the manifests of %s, which takes a minute the first time\n", version)
	if files, err = p.generate(ctx, files); err != nil {
		return err
	}
	if err := p.write(files); err != nil {
		return err
	}
	fmt.Fprintf(stdout, `%[1]s has the version %[2]s now, which is served and not stored. Next:

  change its types in %[3]s, and write a lens for each field that differs, in internal/versions/%[4]s.go
  run make generate and the tests of the project
  let the operator use %[3]s: import it, and add Conversion: versions.Handler() to testkit.Env of its tests
`, op.Kind, version, v.API, op.Singular)
	return nil
}

// newVersion returns the version with its names. It is an error if the kind has it.
func (p *project) newVersion(op *operator, version string) (*newVersion, error) {
	changed := *op
	changed.Version = version
	changed.API = path.Join(path.Dir(op.API), version)
	if err := checkVersion(&changed); err != nil {
		return nil, err
	}
	files, err := p.parse(changed.API)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if typeOf(file, op.Kind) != nil {
			return nil, usageErrorf("the kind %s has the version %s, in %s: choose another one", op.Kind, version, changed.API)
		}
	}
	if group := groupOf(files); group != "" && group != op.Group {
		return nil, usageErrorf("%s has the group %s, and %s has %s: a package has one group", changed.API, group, op.Kind, op.Group)
	}
	v := &newVersion{operator: &changed, OldVersion: op.Version, OldAPI: op.API}
	if v.OldSampleFile, err = p.sample(op); err != nil {
		return nil, err
	}
	v.SampleFile = strings.TrimSuffix(v.OldSampleFile, ".yaml") + "_" + version + ".yaml"
	return v, nil
}

// versionFiles returns all files that the version needs, as they are before controller-gen runs.
func (p *project) versionFiles(op *operator, v *newVersion) (map[string][]byte, error) {
	w, err := p.webhooks(op, webhookRequest{})
	if err != nil {
		return nil, err
	}
	w.Conversion = true
	files, edits, err := w.parts(p)
	if err != nil {
		return nil, err
	}
	var sets []string
	isSecond := !p.exists("internal/versions/" + op.Singular + ".go")
	if isSecond {
		sets = append(sets, "version")
	}
	if !p.exists("internal/versions") {
		sets = append(sets, "versions")
	} else if isSecond {
		edits = append(edits, edit{
			file: "internal/versions/versions.go", by: "add " + op.Kind + " to kinds",
			apply: insertAfter("var kinds = []*conversion.Kind{\n", "\t"+op.Kind+",\n"),
		})
	}
	if !p.exists(v.API) {
		sets = append(sets, "api")
	} else {
		edits = append(edits, edit{
			file: v.API + "/register.go", by: "add to AddToScheme the kind " + op.Kind,
			apply: insertAfter("\tmetav1.AddToGroupVersion(s, GroupVersion)\n", "\ts.AddKnownTypes(GroupVersion, &"+op.Kind+"{}, &"+op.Kind+"List{})\n"),
		})
	}
	rendered, err := renderSets(v.operator, v, sets...)
	if err != nil {
		return nil, err
	}
	types, marker, err := p.copyTypes(op, v)
	if err != nil {
		return nil, err
	}
	sample, err := p.copySample(v)
	if err != nil {
		return nil, err
	}
	for _, more := range []map[string][]byte{rendered, types, {v.SampleFile: sample}} {
		maps.Copy(files, more)
	}
	edits = append(edits, marker...)
	return p.apply(files, append(edits, v.edits(w, isSecond)...))
}

// edits returns the lines in files of the project that use the version.
func (v *newVersion) edits(w *webhooks, isSecond bool) []edit {
	sample := "  - " + path.Base(v.SampleFile) + "\n"
	edits := []edit{{
		file: "config/samples/kustomization.yaml", by: "add to the resources:\n" + sample, apply: insertAfter("resources:\n", sample),
	}}
	if !isSecond {
		line := fmt.Sprintf("\t\t{Name: %q, Type: &%s.%s{}, ListKeys: map[string][]string{\"status.conditions\": {\"type\"}}},\n",
			v.Version, v.Version, v.Kind)
		return append(edits, edit{
			file: "internal/versions/" + v.Singular + ".go", by: "add to Versions:\n" + line,
			apply: addImport(v.Module+"/"+v.API, insertAfter("\tVersions: []conversion.Version{\n", line)),
		})
	}
	target := "  - target: {kind: CustomResourceDefinition, name: " + v.Plural + "." + v.Group + "}\n    patch: |\n"
	conversion := target + "      - op: add\n        path: /spec/conversion\n        value:\n          strategy: Webhook\n" +
		"          webhook:\n            conversionReviewVersions: [v1]\n            clientConfig:\n" +
		"              service: {name: " + v.Program + "-webhook, namespace: " + w.Namespace + ", path: /convert}\n"
	none := "  # Without webhooks, the API server changes only the version of an object.\n" + target +
		"      - {op: remove, path: /spec/conversion}\n"
	return append(
		edits,
		edit{file: "config/crd/kustomization.yaml", by: "add to the patches:\n" + conversion, apply: addPatch(conversion)},
		edit{
			file: "config/namespaced/kustomization.yaml", optional: true, by: "add to the patches:\n" + none, apply: addPatch(none),
		},
	)
}

// addPatch adds a patch to a kustomization.
func addPatch(patch string) func([]byte) ([]byte, error) {
	return func(content []byte) ([]byte, error) {
		if !bytes.Contains(content, []byte("\npatches:\n")) {
			content = append(bytes.TrimRight(content, "\n"), "\npatches:\n"...)
		}
		return insertAfter("patches:\n", patch)(content)
	}
}

// copySample returns the sample in the new version, under another name.
func (p *project) copySample(v *newVersion) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(v.OldSampleFile)))
	if err != nil {
		return nil, fmt.Errorf("reading the sample: %w", err)
	}
	var lines []string
	for line := range strings.Lines(string(content)) {
		if text := strings.TrimRight(line, "\n"); strings.HasPrefix(text, "  name: ") && !slices.Contains(lines, "spec:\n") {
			line = text + "-" + v.Version + "\n"
		}
		lines = append(lines, strings.Replace(line, "apiVersion: "+v.Group+"/"+v.OldVersion, "apiVersion: "+v.Group+"/"+v.Version, 1))
	}
	return []byte(strings.Join(lines, "")), nil
}

// storageMarker is the marker of the version that is stored.
const storageMarker = "// +kubebuilder:storageversion"

// copyTypes returns the files with the Go types of the kind for the new version, and the edit that marks the old one as stored.
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
		if all[base], err = parser.ParseFile(fset, name, contents[base], parser.ParseComments|parser.SkipObjectResolution); err != nil {
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

// filesOf returns the names of the files that the types of a kind need, in order: those with the types and constants that they
// name, directly or not, and with their methods. A file that registers types is not one of them.
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
