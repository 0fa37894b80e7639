package scaffold

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"
)

func TestNames(t *testing.T) {
	t.Parallel()
	type names struct{ Singular, Plural, Package, Var string }
	for name, tc := range map[string]struct {
		reason, name, kind string
		want               names
	}{
		"words":     {"words stay apart", "web-shop", "WebShop", names{"webshop", "webshops", "webshop", "webShop"}},
		"plural":    {"controller-gen forms English plurals", "proxy", "Proxy", names{"proxy", "proxies", "proxy", "proxy"}},
		"no plural": {"some words have no plural", "series", "Series", names{"series", "series", "series", "series"}},
		"initials":  {"initialisms have one case", "route", "HTTPRoute", names{"httproute", "httproutes", "route", "httpRoute"}},
		"digits":    {"a digit is no word", "s3", "S3Bucket", names{"s3bucket", "s3buckets", "s3", "s3Bucket"}},
		"keyword":   {"Go reserves it", "type", "Type", names{"type", "types", "typeoperator", "typeObject"}},
		"builtin":   {"Go reserves it", "len", "Len", names{"len", "lens", "lenoperator", "lenObject"}},
		"import":    {"the tests import it", "testkit", "Client", names{"client", "clients", "testkitoperator", "clientObject"}},
		"local":     {"it is declared", "service", "Service", names{"service", "services", "serviceoperator", "serviceObject"}},
		"version": {
			"the API package has that name", "v1alpha1", "V1alpha1",
			names{"v1alpha1", "v1alpha1s", "v1alpha1operator", "v1alpha1Object"},
		},
	} {
		op, err := newOperator(request{name: tc.name, group: "example.com", kind: tc.kind, version: "v1alpha1"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tc.want, names{op.Singular, op.Plural, op.Package, op.Var}); diff != "" {
			t.Errorf("%s: %s, but -want +got:\n%s", name, tc.reason, diff)
		}
	}
}

// controller-gen sorts the rules of a role by group.
func TestRightsAreSorted(t *testing.T) {
	t.Parallel()
	for group, at := range map[string]int{
		"a.example.com": 2, "apps.example.com": 3, "events.k8s.io.example.com": 4, "z.example.com": 4,
	} {
		all := rights(&operator{Group: group, Plural: "things"})
		if got := slices.IndexFunc(all, func(r right) bool { return r.Group == group }); got != at {
			t.Errorf("the rules of group %s begin at %d, want %d", group, got, at)
		}
	}
}

// Generated modules require the versions of this repository.
func TestVersions(t *testing.T) {
	t.Parallel()
	const root = "../../../../"
	mod := func(name string) *modfile.File {
		data, err := os.ReadFile(root + name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := modfile.Parse(name, data, nil)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	if got := mod("sdk/go.mod").Go.Version; got != goVersion {
		t.Errorf("go %s is written to go.mod, and the SDK has %s", goVersion, got)
	}
	for _, tool := range []struct{ file, path, version string }{
		{"tools/go.mod", "sigs.k8s.io/controller-tools", controllerGenVersion},
		{"tools/lint/go.mod", "github.com/golangci/golangci-lint/v2", golangciLintVersion},
	} {
		i := slices.IndexFunc(mod(tool.file).Require, func(r *modfile.Require) bool { return r.Mod.Path == tool.path })
		if i < 0 {
			t.Errorf("%s does not require %s", tool.file, tool.path)
		} else if got := mod(tool.file).Require[i].Mod.Version; got != tool.version {
			t.Errorf("%s %s is written to the Makefile, and %s has %s", tool.path, tool.version, tool.file, got)
		}
	}
}

// No file contains a placeholder or a name of another operator.
func TestTemplatesAreFilledIn(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{scopeNamespaced, scopeCluster} {
		op, err := newOperator(request{
			name: strings.Repeat("n", maxName), kind: "K" + strings.Repeat("k", maxKind-1),
			group: "group.example.org", version: "v1beta1", scope: scope,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []location{{root: "/src"}, {homeostat: "/src"}, {version: "v1.2.3"}} {
			op.setLocation(at)
			files, err := op.files()
			if err != nil {
				t.Fatal(err)
			}
			for name, content := range files {
				text := strings.ReplaceAll(string(content), "operators.coreos.com/v1alpha1", "") // of a bundle
				for _, foreign := range []string{
					"<<", ">>", "WebShop", "webshop", "web-shop", "mmortal", "v1alpha1", "no value",
				} {
					if strings.Contains(text, foreign) {
						t.Errorf("%s contains %q", name, foreign)
					}
				}
			}
		}
	}
}

// The manifests and the code of an operator have the scope of its kind.
func TestScope(t *testing.T) {
	t.Parallel()
	for scope, want := range map[string]struct {
		namespaced bool
		marker     string
	}{
		scopeNamespaced: {true, "singular=webshop\n"},
		scopeCluster:    {false, "singular=webshop,scope=Cluster\n"},
	} {
		op, err := newOperator(request{name: "shop", kind: "WebShop", group: "a.example.com", version: "v1", scope: scope})
		if err != nil {
			t.Fatal(err)
		}
		files, err := op.files()
		if err != nil {
			t.Fatal(err)
		}
		if got := string(files["config/crd/a.example.com_webshops.yaml"]); !strings.Contains(got, "\n  scope: "+scope+"\n") {
			t.Errorf("%s: the CustomResourceDefinition has another scope", scope)
		}
		if got := string(files["api/v1/webshop.go"]); !strings.Contains(got, want.marker) {
			t.Errorf("%s: there is no marker with %q", scope, want.marker)
		}
		for _, name := range []string{"config/namespaced/kustomization.yaml", "config/namespaced/watched.yaml"} {
			if _, ok := files[name]; ok != want.namespaced {
				t.Errorf("%s: %s exists: %t, want %t", scope, name, ok, want.namespaced)
			}
		}
		if _, ok := files["internal/desired/namespace.go"]; ok == want.namespaced {
			t.Errorf("%s: the operator creates a Namespace: %t", scope, ok)
		}
		if got := strings.Contains(string(files["config/access/edit_role.yaml"]), "aggregate-to-edit"); got != want.namespaced {
			t.Errorf("%s: editors of a namespace may create the objects: %t", scope, got)
		}
	}
}
