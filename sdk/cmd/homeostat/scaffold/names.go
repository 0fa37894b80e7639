package scaffold

import (
	"cmp"
	"errors"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/gobuffalo/flect"
	"golang.org/x/mod/module"
)

// operator is the input of the templates.
type operator struct {
	Name    string // web-shop; that of another kind of the program is its singular
	Program string // web-shop: the name of the program
	Group   string // shop.example.com
	Version string // v1alpha1
	Kind    string // WebShop

	Singular string // webshop
	Plural   string // webshops, as controller-gen forms it
	Package  string // webshop: the Go package of the operator, imageoperator for the name image
	Var      string // webShop: a Go variable of the kind, typeObject for the kind Type
	Dir      string // the folder of that package: empty for the root, or internal/coupon/ for another kind of the program
	API      string // api/v1alpha1: the folder of the API package
	Module   string // shop.example.com/web-shop
	Image    string // web-shop:dev

	Inside     bool   // whether it is an operator of this repository
	Homeostat  string // the folder of a checkout for go.mod; empty if the SDK is required by version
	Ref        string // the commit of that checkout; empty if it is unknown
	SDKVersion string

	Cluster bool // whether the kind is cluster-scoped
	Python  bool // whether it is a function in Python

	kindArgument string // the argument that names the kind, for error messages

	Go, ControllerGen, GolangciLint, KubeAPILinter string // versions
	Rights                                         []right
}

// URL returns the URL of the project. By the convention of Go it is that of the module.
func (op *operator) URL() string { return "https://" + op.Module }

// DocumentationURL returns the URL of the README.
func (op *operator) DocumentationURL() string { return op.URL() + "#readme" }

// Import returns the path of the operator's package.
func (op *operator) Import() string { return path.Join(op.Module, op.Dir) }

// HooksPackage returns the name of the package with the webhooks of the kind.
func (op *operator) HooksPackage() string {
	if op.Dir == "" {
		return "webhooks"
	}
	return op.Package + "webhooks"
}

// HooksDir returns the folder of that package.
func (op *operator) HooksDir() string { return "internal/" + op.HooksPackage() }

// Desired returns the folder of the package that builds the children.
func (op *operator) Desired() string {
	if op.Dir == "" {
		return "internal/desired"
	}
	return op.Dir + "desired"
}

// Root returns the relative path from the operator's package to the root of the module.
func (op *operator) Root() string { return strings.Repeat("../", strings.Count(op.Dir, "/")) }

// Sample returns the name of the sample, and of its file without the suffix. Each sample of a program has a name of its own,
// because its children have that name.
func (op *operator) Sample() string {
	if op.Dir == "" {
		return "example"
	}
	return op.Singular
}

// SampleWidth returns the width of a column with the name of the sample.
func (op *operator) SampleWidth() int { return max(len("NAME"), len(op.Sample())) }

// Prefix returns the prefix of the names of files that each kind of a program has.
func (op *operator) Prefix() string {
	if op.Dir == "" {
		return ""
	}
	return op.Singular + "_"
}

// AccessName returns the prefix of the names of the roles for users.
func (op *operator) AccessName() string {
	if op.Dir == "" {
		return op.Program
	}
	return op.Program + "-" + op.Singular
}

// Scope returns the scope in the notation of a CustomResourceDefinition.
func (op *operator) Scope() string {
	if op.Cluster {
		return scopeCluster
	}
	return scopeNamespaced
}

// TestName returns a Go expression for the name of an object in a test. The test is k. The API server is shared with other
// tests, so that cluster-scoped objects need names of their own.
func (op *operator) TestName() string {
	if op.Cluster {
		return `"a-" + k.Namespace`
	}
	return `"a"`
}

// The scopes of kinds.
const (
	scopeNamespaced = "Namespaced"
	scopeCluster    = "Cluster"
)

// Versions of this repository's modules and tools. Tests compare them with the go.mod files.
const (
	goVersion            = "1.26.0"
	controllerGenVersion = "v0.23.0"
	golangciLintVersion  = "v2.15.0"
	kubeAPILinterVersion = "v0.0.0-20260716143926-092fe0c72997" // it has no releases
)

const (
	// maxName leaves room for the longest suffix in the manifests, -controller, in a label of 63 characters.
	maxName = 50
	maxKind = 40
)

var (
	nameForm    = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	kindForm    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	versionForm = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)
	groupForm   = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)
)

// newOperator derives all names. It returns an error about the first name that is not valid.
func newOperator(r request) (*operator, error) {
	op := &operator{
		Name: r.name, Program: r.name, Group: r.group, Version: r.version, Kind: r.kind, Module: r.module,
		API:      "api/" + r.version,
		Singular: strings.ToLower(r.kind),
		Plural:   strings.ToLower(flect.Pluralize(r.kind)),
		Go:       goVersion, ControllerGen: controllerGenVersion, GolangciLint: golangciLintVersion,
		KubeAPILinter: kubeAPILinterVersion,
		Cluster:       r.scope == scopeCluster, kindArgument: "--kind", Python: r.language == languagePython,
	}
	if err := errors.Join(checkScope(r.scope), checkLanguage(r)); err != nil {
		return nil, err
	}
	if op.Module == "" {
		op.Module = op.Group + "/" + op.Name
	}
	for _, check := range []func(*operator) error{checkName, checkGroup, checkKind, checkVersion, checkModule} {
		if err := check(op); err != nil {
			return nil, err
		}
	}
	op.Rights = rights(op)
	used, err := op.identifiers(op.sets()...)
	if err != nil {
		return nil, err
	}
	op.Package = unusedName(used, strings.ReplaceAll(r.name, "-", ""), "operator")
	op.Var = unusedName(used, variableName(r.kind), "Object")
	return op, nil
}

// unusedName returns the name. If the code uses it otherwise, or Go reserves it, the suffix is appended.
func unusedName(used map[string]bool, name, suffix string) string {
	if used[name] || token.IsKeyword(name) || types.Universe.Lookup(name) != nil {
		return name + suffix
	}
	return name
}

func checkScope(scope string) error {
	if scope != scopeCluster && scope != scopeNamespaced && scope != "" {
		return usageErrorf("--scope %q will not do: choose %s or %s", scope, scopeNamespaced, scopeCluster)
	}
	return nil
}

func checkName(op *operator) error {
	switch {
	case !nameForm.MatchString(op.Name) || len(op.Name) > maxName:
		return usageErrorf("NAME %q will not do: choose at most %d lower-case letters, digits and dashes, "+
			"beginning with a letter and not ending with a dash", op.Name, maxName)
	case isYAMLWord(op.Name) || slices.Contains([]string{"internal", "testdata", "vendor"}, op.Name):
		return usageErrorf("NAME %q will not do, because it means something else in YAML or to the go command: "+
			"choose another one, such as %[1]s-operator", op.Name)
	}
	return nil
}

func checkGroup(op *operator) error {
	switch {
	case !groupForm.MatchString(op.Group) || len(op.Plural+"."+op.Group) > 253:
		return usageErrorf("--group %q will not do: choose a domain of yours with at least one dot, in lower case, "+
			"for example shop.example.com", op.Group)
	case op.Group == "k8s.io" || op.Group == "kubernetes.io" ||
		strings.HasSuffix(op.Group, ".k8s.io") || strings.HasSuffix(op.Group, ".kubernetes.io"):
		return usageErrorf("--group %q will not do, because it belongs to Kubernetes, whose API server asks for its approval: "+
			"choose a domain of yours, for example shop.example.com", op.Group)
	}
	return nil
}

func checkKind(op *operator) error {
	switch {
	case !kindForm.MatchString(op.Kind) || len(op.Kind) > maxKind:
		return usageErrorf("%s %q will not do: choose at most %d letters and digits, beginning with an upper-case letter, "+
			"for example WebShop", op.kindArgument, op.Kind, maxKind)
	case strings.HasSuffix(op.Kind, "List"):
		return usageErrorf("%s %q will not do, because it is what a list of objects is called: choose the name of one object",
			op.kindArgument, op.Kind)
	case slices.Contains(takenKinds, op.Kind) || isYAMLWord(op.Kind):
		return usageErrorf("%s %q will not do, because every API package has something else of that name: "+
			"choose another one, such as My%[2]s", op.kindArgument, op.Kind)
	}
	return nil
}

func checkVersion(op *operator) error {
	if !versionForm.MatchString(op.Version) {
		return usageErrorf("--version %q will not do: choose a version of Kubernetes' kind, for example v1alpha1, v1beta1 or v1",
			op.Version)
	}
	return nil
}

func checkModule(op *operator) error {
	if err := module.CheckImportPath(op.Module); err != nil {
		return usageErrorf("--module will not do: %w: choose a path such as github.com/you/%s", err, op.Name)
	}
	if _, _, ok := module.SplitPathVersion(op.Module); !ok {
		return usageErrorf("--module %q will not do, because it ends like a version: choose a path such as github.com/you/%s",
			op.Module, op.Name)
	}
	return nil
}

// takenKinds are other declarations of the API package, and kinds that a scheme registers in each API group.
var takenKinds = []string{
	"GroupVersion", "AddToScheme",
	"WatchEvent", "ListOptions", "GetOptions", "DeleteOptions", "CreateOptions", "UpdateOptions", "PatchOptions",
}

// isYAMLWord reports whether some YAML parsers read the word as a value that is not a string.
func isYAMLWord(word string) bool {
	return slices.Contains([]string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}, strings.ToLower(word))
}

// variableName returns the kind with its first word in lower case: webShop for WebShop, httpRoute for HTTPRoute.
func variableName(kind string) string {
	end := 1
	for end < len(kind) && isUpper(kind[end]) && (end+1 == len(kind) || !isLower(kind[end+1])) {
		end++
	}
	return strings.ToLower(kind[:end]) + kind[end:]
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isLower(c byte) bool { return 'a' <= c && c <= 'z' }

// right is a permission of the operator on one resource.
type right struct {
	Group, Resource string
	Verbs           []string // sorted
}

// MarkerGroup returns the group in the notation of markers and YAML.
func (r right) MarkerGroup() string {
	if r.Group == "" {
		return `""`
	}
	return r.Group
}

// MarkerVerbs returns the verbs in the notation of markers.
func (r right) MarkerVerbs() string { return strings.Join(r.Verbs, ";") }

// rights returns the permissions of the operator, in the order of controller-gen.
func rights(op *operator) []right {
	all := []right{
		{"", "services", []string{"create", "delete", "get", "list", "patch", "watch"}},
		{"apps", "deployments", []string{"create", "get", "list", "patch", "watch"}},
		{"events.k8s.io", "events", []string{"create", "patch"}},
		{op.Group, op.Plural, []string{"list", "watch"}},
		{op.Group, op.Plural + "/finalizers", []string{"update"}},
		{op.Group, op.Plural + "/status", []string{"patch"}},
	}
	if op.Cluster {
		all = append(all, right{"", "namespaces", []string{"create", "get", "list", "patch", "watch"}})
	} else {
		all = append(all, right{"", "configmaps", []string{"list", "watch"}})
	}
	slices.SortFunc(all, func(a, b right) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
	})
	return all
}
