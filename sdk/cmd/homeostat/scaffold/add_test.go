package scaffold

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// requireRefused checks that a command ends with exit code 2 and one sentence, and changes nothing.
func requireRefused(t *testing.T, dir, args, want string) {
	t.Helper()
	before := contentsOf(t, dir)
	code, stderr := addIn(t, dir, strings.Fields(args)...)
	if code != exitUsage || !strings.Contains(stderr, want) {
		t.Errorf("code %d, %s\nwant %s", code, stderr, want)
	}
	if diff := cmp.Diff(before, contentsOf(t, dir)); diff != "" {
		t.Errorf("files have changed, -before +after:\n%s", diff)
	}
}

func TestAddKindRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ args, want string }{
		"no name":         {"kind", "give the NAME of the kind, for example `homeostat add kind Coupon`"},
		"unknown flag":    {"kind Coupon --color", "-color: `homeostat add kind --help` lists the flags"},
		"two names":       {"kind Coupon Order", "there is more than one NAME (Coupon, Order)"},
		"invalid name":    {"kind coupon", `NAME "coupon" will not do: choose at most 40 letters`},
		"invalid group":   {"kind Coupon --group shop", `--group "shop" will not do`},
		"invalid version": {"kind Coupon --version 1", `--version "1" will not do`},
		"invalid scope":   {"kind Coupon --scope Global", `--scope "Global" will not do`},
		"existing kind":   {"kind WebShop", "the project has the kind WebShop: choose another NAME, or give it a version"},
		"cluster-scoped":  {"kind Coupon --scope Cluster", "config/namespaced installs the program for one namespace"},
	} {
		t.Run(name, func(t *testing.T) { requireRefused(t, newProject(t), tc.args, tc.want) })
	}
}

func TestAddKindNeedsPlaces(t *testing.T) {
	dir := newProject(t)
	replaceIn(t, filepath.Join(dir, "cmd/main.go"), "webshop.Operator", "operators()...")
	replaceIn(t, filepath.Join(dir, "config/conformance_test.go"), "Columns: map", "Headers: map")
	replaceIn(t, filepath.Join(dir, "api/v1/register.go"), "s.AddKnownTypes", "scheme.AddKnownTypes")
	requireRefused(t, dir, "kind Coupon", "config/conformance_test.go: add to Columns:\n")
	requireRefused(t, dir, "kind Coupon", "api/v1/register.go: add to AddToScheme:\n"+
		"\ts.AddKnownTypes(GroupVersion, &Coupon{}, &CouponList{})\n")
}

// The lines of a program with flags of its own use the new package, so that they are added after it is written.
func TestAddKindLeavesLinesOfProgram(t *testing.T) {
	t.Parallel()
	dir := newProject(t)
	replaceIn(t, filepath.Join(dir, "cmd/main.go"), "program.Main(webshop.Operator)",
		"(&program.Program{Name: \"shops\", Operators: operators}).Main()")
	p, err := findProject(dir)
	if err != nil {
		t.Fatal(err)
	}
	op, err := p.newKind(request{kind: "Coupon", scope: scopeNamespaced})
	if err != nil {
		t.Fatal(err)
	}
	edits, err := op.registration(p.inPackage(op.API))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.apply(map[string][]byte{}, edits); err != nil {
		t.Fatal(err)
	}
	const want = `cmd/main.go: let it call program.Named("shops", ..., coupon.Operator).Main(), or let Operators of a ` +
		"program.Program return coupon.Operator, too; import shop.example.com/web-shop/internal/coupon"
	if diff := cmp.Diff([]string{want}, p.left); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAddVersionRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ args, want string }{
		"no version":      {"version", "give the name of the version, for example `homeostat add version v1beta1`"},
		"invalid version": {"version 2", `--version "2" will not do`},
		"unknown kind":    {"version v2 --kind Coupon", `--kind "Coupon" is not a kind of this project, which has WebShop`},
		"existing":        {"version v1", "the kind WebShop has the version v1, in api/v1: choose another one"},
	} {
		t.Run(name, func(t *testing.T) { requireRefused(t, newProject(t), tc.args, tc.want) })
	}
}

// The declaration of the conversion has the keys of all lists of type map that the definition of the former version has.
func TestAddVersionWritesListKeys(t *testing.T) {
	dir := newProject(t)
	replaceIn(t, filepath.Join(dir, "config/crd/shop.example.com_webshops.yaml"), "          spec:\n"+
		"            description: Spec says what to run.\n            properties:\n", `          spec:
            description: Spec says what to run.
            properties:
              routes:
                additionalProperties:
                  items:
                    properties:
                      host: {type: string}
                      ports:
                        items:
                          properties:
                            port: {type: integer}
                            protocol: {type: string}
                          type: object
                        type: array
                        x-kubernetes-list-map-keys: [port, protocol]
                        x-kubernetes-list-type: map
                    type: object
                  type: array
                  x-kubernetes-list-map-keys: [host]
                  x-kubernetes-list-type: map
                type: object
              tags:
                items: {type: string}
                type: array
                x-kubernetes-list-type: set
`)
	p, err := findProject(dir)
	if err != nil {
		t.Fatal(err)
	}
	op, err := p.operator("WebShop")
	if err != nil {
		t.Fatal(err)
	}
	v, err := p.newVersion(op, "v2")
	if err != nil {
		t.Fatal(err)
	}
	files, err := p.versionFiles(op, v)
	if err != nil {
		t.Fatal(err)
	}
	got := string(files["internal/versions/webshop.go"])
	const want = `ListKeys: map[string][]string{
				"spec.routes.*":         {"host"},
				"spec.routes.*[].ports": {"port", "protocol"},
				"status.conditions":     {"type"},
			}`
	if unindented := strings.ReplaceAll(got, "\t", ""); strings.Count(unindented, strings.ReplaceAll(want, "\t", "")) != 2 {
		t.Errorf("the file is\n%s\nwant twice\n%s", got, want)
	}
}

// A program keeps its name when it gets another operator.
func TestAddToProgram(t *testing.T) {
	t.Parallel()
	const head = "package main\n\nimport (\n\t\"example.com/shop\"\n)\n\nfunc main() { "
	for before, want := range map[string]string{
		"program.Main(shop.Operator)":                         `program.Named("shop", shop.Operator, coupon.Operator).Main()`,
		`program.Named("a", shop.Operator, b.C).Main()`:       `program.Named("a", shop.Operator, b.C, coupon.Operator).Main()`,
		"program.Main(\n\t\tshop.Operator,\n\t)":              `program.Named("shop", shop.Operator, coupon.Operator).Main()`,
		`program.Named("a", shop.Operator, coupon.Operator)`:  `program.Named("a", shop.Operator, coupon.Operator)`,
		`(&program.Program{Operators: []any{shop.Operator}})`: "",
	} {
		op := &operator{Program: "shop", Package: "coupon", Module: "example.com/shop", Dir: "internal/coupon/"}
		got, err := addToProgram(op)([]byte(head + before + " }\n"))
		switch {
		case (err != nil) != (want == ""):
			t.Errorf("%s: %v", before, err)
		case err == nil && !strings.Contains(string(got), "{ "+want+" }\n"):
			t.Errorf("%s becomes\n%s\nwant %s", before, got, want)
		case err == nil && !strings.Contains(string(got), `"example.com/shop/internal/coupon"`):
			t.Errorf("%s: the package is not imported:\n%s", before, got)
		}
	}
}

// The files of a version are those with the types that a kind needs, and their methods and constants.
func TestFilesOfKind(t *testing.T) {
	t.Parallel()
	sources := map[string]string{
		"doc.go":      "package v1",
		"register.go": "package v1; func AddToScheme() { _, _ = A{}, B{} }",
		"a.go":        "package v1; type A struct { Of Spec }; type AList struct { Items []A }",
		"spec.go":     "package v1; type Spec struct { How Mode }",
		"mode.go":     "package v1; type Mode string; const Fast Mode = `fast`",
		"methods.go":  "package v1; func (s *Spec) Limit() int { return limit }",
		"limits.go":   "package v1; const limit = 1",
		"b.go":        "package v1; type B struct { How Mode }",
	}
	files := parseAll(t, sources)
	if diff := cmp.Diff([]string{"a.go", "limits.go", "methods.go", "mode.go", "spec.go"}, filesOf(files, "A")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Fields of another command, and of a person, stay.
func TestInsertFields(t *testing.T) {
	t.Parallel()
	source := "package a\n\nvar Operator = &webhook.Operator[*v1.A]{\n\tOperator: a.Operator,\n\tDefault: mine,\n}\n"
	got, err := insertFields("webhook", "Operator", []string{"Default: setDefaults", "Validate: validate"})([]byte(source))
	want := strings.Replace(source, "mine,\n", "mine,\n\tValidate: validate,\n", 1)
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

func TestReadAllLeavesOutBuilds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writeFiles(dir, map[string][]byte{"a/b.go": []byte("package a"), "build/c": nil, ".git/d": nil}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	got, err := readAll(dir)
	if diff := cmp.Diff(map[string][]byte{"a/b.go": []byte("package a")}, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

func parseAll(t *testing.T, sources map[string]string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	for name, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	return files
}
