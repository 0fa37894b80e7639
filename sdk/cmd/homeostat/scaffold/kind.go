package scaffold

import (
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gobuffalo/flect"
)

// addKind executes the command `homeostat add kind`.
func addKind(ctx context.Context, args []string, stdout io.Writer) error {
	r := request{}
	flags := flag.NewFlagSet("add kind", flag.ContinueOnError)
	flags.StringVar(&r.group, "group", "", "")
	flags.StringVar(&r.version, "version", "", "")
	flags.StringVar(&r.scope, "scope", scopeNamespaced, "")
	var err error
	if r.kind, err = parseName(flags, args); err != nil {
		return err
	}
	if r.kind == "" {
		return usageErrorf("give the NAME of the kind, for example `homeostat add kind Coupon`")
	}
	p, err := openProject()
	if err != nil {
		return err
	}
	op, err := p.newKind(r)
	if err != nil {
		return err
	}
	if err := p.checkClean(ctx); err != nil {
		return err
	}
	sets := []string{"kind", "another"}
	inPackage := p.inPackage(op.API)
	if len(inPackage) == 0 {
		sets = append(sets, "api")
	}
	files, err := renderSets(op, op, sets...)
	if err != nil {
		return err
	}
	edits, err := op.registration(inPackage)
	if err != nil {
		return err
	}
	if files, err = p.apply(files, edits); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Generating the code and the manifests of %s, which takes a minute the first time\n", op.Kind)
	if files, err = p.generate(ctx, files); err != nil {
		return err
	}
	if err := p.write(files); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "The project has the kind %s now.%s", op.Kind, p.next(fmt.Sprintf(
		`  change %s%s.go, its operator, and %s, its API
  run the tests of the project
`, op.Dir, op.Package, op.API)))
	return nil
}

// openProject returns the project that contains the current folder.
func openProject() (*project, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("finding the current folder: %w", err)
	}
	return findProject(cwd)
}

// newKind derives all names of a further kind. The group and the version are those of the first kind if they are not given.
func (p *project) newKind(r request) (*operator, error) {
	if len(p.operators) == 0 {
		_, err := p.operator("")
		return nil, err
	}
	first := p.operators[0]
	if err := p.complete(first); err != nil {
		return nil, err
	}
	if r.group == "" {
		r.group = first.Group
	}
	if r.version == "" {
		r.version = first.Version
	}
	op := &operator{
		Program: p.program, Group: r.group, Version: r.version, Kind: r.kind, Module: p.module, Cluster: r.scope == scopeCluster,
		Singular: strings.ToLower(r.kind), Plural: strings.ToLower(flect.Pluralize(r.kind)), kindArgument: "NAME",
	}
	for _, err := range []error{checkScope(r.scope), checkGroup(op), checkKind(op), checkVersion(op), p.checkNew(op)} {
		if err != nil {
			return nil, err
		}
	}
	op.Rights = rights(op)
	return op, p.setPackages(op)
}

// checkNew returns an error if the kind exists, or if the program cannot have it.
func (p *project) checkNew(op *operator) error {
	if slices.ContainsFunc(p.operators, func(o *operator) bool { return o.Kind == op.Kind }) {
		return usageErrorf("the project has the kind %s: choose another NAME, or give it a version with `homeostat add version`",
			op.Kind)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "config", "namespaced")); err == nil && op.Cluster {
		return usageErrorf("config/namespaced installs the program for one namespace, which has no objects of a cluster-scoped " +
			"kind: remove that folder and its Overlay in config/conformance_test.go, commit that and repeat the command")
	}
	return nil
}

// setPackages sets the names of the operator and of its packages.
func (p *project) setPackages(op *operator) error {
	used := map[string]bool{"webhooks": true, "versions": true, "main": true}
	names := map[string]bool{}
	for _, o := range p.operators {
		used[o.Package] = true
		names[o.Name] = true
	}
	op.Name = op.Singular
	if names[op.Name] {
		op.Name += "-kind"
	}
	op.Package = "thispackage"
	op.Dir = "internal/thispackage/"
	for _, folder := range []string{"", strings.Split(op.Group, ".")[0] + "/", op.Group + "/"} {
		op.API = "api/" + folder + op.Version
		files, err := p.parse(op.API)
		if err != nil {
			return err
		}
		if len(files) == 0 || groupOf(files) == op.Group {
			break
		}
	}
	identifiers, err := op.identifiers("kind", "api")
	if err != nil {
		return err
	}
	op.Var = unusedName(identifiers, variableName(op.Kind), "Object")
	for name := range identifiers {
		used[name] = true
	}
	op.Package = unusedName(used, op.Singular, "operator")
	op.Dir = "internal/" + op.Package + "/"
	return nil
}

// inPackage returns the operators whose kinds are in an API package.
func (p *project) inPackage(api string) []*operator {
	var found []*operator
	for _, o := range p.operators {
		if o.API == api {
			found = append(found, o)
		}
	}
	return found
}

// addKnownTypes is the line that registers the types of a kind.
const addKnownTypes = "\ts.AddKnownTypes(GroupVersion, &%[1]s{}, &%[1]sList{})\n"

// registration returns the lines in files of the project that use the kind. Its API package has the kinds of the given
// operators.
func (op *operator) registration(inPackage []*operator) ([]edit, error) {
	const resources = "resources:\n"
	setup := "\t\t\tif err := " + op.Package + ".Operator.SetupInNamespaces(mgr, namespaces...); err != nil {\n" +
		"\t\t\t\treturn err\n\t\t\t}\n"
	column := fmt.Sprintf("\t\t\t%q: \"NAME IMAGE PODS READY AGE\",\n", op.Plural+"."+op.Group)
	crd := "  - " + op.Group + "_" + op.Plural + ".yaml\n"
	sample := "  - " + op.Sample() + ".yaml\n"
	access := "  - " + op.Prefix() + "edit_role.yaml\n  - " + op.Prefix() + "view_role.yaml\n"
	const layout = "| `internal/desired` | pure functions that build the children |\n"
	row := "| `" + strings.TrimSuffix(op.Dir, "/") + "` | the operator of the kind " + op.Kind + " |\n"
	chapter := "## Change it\n\n"
	link := fmt.Sprintf("The program has the kind [%s](%sREADME.md), too.\n\n", op.Kind, op.Dir)
	description, err := render("templates/description.md.tmpl", op)
	if err != nil {
		return nil, err
	}
	const conformance = "config/conformance_test.go"
	edits := []edit{
		{
			file: "cmd/main.go", later: true,
			by: fmt.Sprintf("let it call program.Named(%[1]q, ..., %[2]s.Operator).Main(), or let Operators of a program.Program "+
				"return %[2]s.Operator, too; import %[3]s", op.Program, op.Package, op.Import()),
			apply: addToProgram(op),
		},
		{file: "config/crd/kustomization.yaml", by: "add to the resources:\n" + crd, apply: insertAfter(resources, crd)},
		{file: "config/samples/kustomization.yaml", by: "add to the resources:\n" + sample, apply: insertAfter(resources, sample)},
		{
			file: "config/access/kustomization.yaml", optional: true, by: "add to the resources:\n" + access,
			apply: insertAfter(resources, access),
		},
		{
			file: conformance, optional: true, by: "import " + op.Import() + ", and add to Setup:\n" + setup,
			apply: addImport(op.Import(), insertAfter("\t\tSetup: func(mgr manager.Manager, namespaces ...string) error {\n", setup)),
		},
		{
			file: conformance, optional: true, by: "add to Columns:\n" + column,
			apply: insertAfter("\t\tColumns: map[string]string{\n", column),
		},
		{file: "README.md", hint: true, apply: insertAfter(chapter, link)},
		{file: "AGENTS.md", hint: true, apply: insertAfter(layout, row)},
		{
			file: "config/manifests/bases/" + op.Program + "-operator.clusterserviceversion.yaml", optional: true, hint: true,
			apply: appendDescription(string(description)),
		},
	}
	if len(inPackage) > 0 {
		line := fmt.Sprintf(addKnownTypes, op.Kind)
		edits = append(edits, edit{
			file: op.API + "/register.go", by: "add to AddToScheme:\n" + line,
			apply: insertAfter(fmt.Sprintf(addKnownTypes, inPackage[0].Kind), line),
		})
	}
	return edits, nil
}

// addToProgram adds the operator to the call of program.Main or program.Named. The name of the program stays.
func addToProgram(op *operator) func([]byte) ([]byte, error) {
	return addImport(op.Import(), func(content []byte) ([]byte, error) {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "", content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, errNotFound
		}
		call := programCall(file)
		if call == nil {
			return nil, errNotFound
		}
		if slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return isSelector(e, op.Package, "Operator") }) {
			return content, nil
		}
		offset := func(p token.Pos) int { return fset.Position(p).Offset }
		arguments := strings.Trim(string(content[offset(call.Lparen)+1:offset(call.Rparen)]), ", \t\n")
		begin := "program.Named("
		end := ")"
		if isSelector(call.Fun, "program", "Main") {
			begin += strconv.Quote(op.Program) + ", "
			end = ").Main()"
		}
		return slices.Concat(content[:offset(call.Pos())], []byte(begin+arguments+", "+op.Package+".Operator"+end),
			content[offset(call.End()):]), nil
	})
}

// addImport applies an edit to a Go file, and imports a package that it uses.
func addImport(imported string, change func([]byte) ([]byte, error)) func([]byte) ([]byte, error) {
	return func(content []byte) ([]byte, error) {
		content, err := change(content)
		if err != nil {
			return nil, err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "", content, parser.ImportsOnly)
		if err != nil || len(file.Imports) == 0 {
			return nil, errNotFound
		}
		if importOf(file, imported) != nil {
			return content, nil
		}
		// The last import is one of this module or of the SDK.
		end := fset.Position(file.Imports[len(file.Imports)-1].End()).Offset
		return slices.Concat(content[:end], []byte("\n\t"+strconv.Quote(imported)), content[end:]), nil
	}
}

// appendDescription appends a paragraph to a file that ends with the description of a program.
func appendDescription(text string) func([]byte) ([]byte, error) {
	return func(content []byte) ([]byte, error) {
		_, description, found := strings.Cut(string(content), "\n  description: |\n")
		for line := range strings.Lines(description) {
			found = found && (line == "\n" || strings.HasPrefix(line, "    "))
		}
		if !found {
			return nil, errNotFound
		}
		return []byte(strings.TrimRight(string(content), "\n") + "\n\n" + text), nil
	}
}
