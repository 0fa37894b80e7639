package scaffold

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const rules = `linters:
  settings:
    depguard:
      rules:
        everywhere:
          list-mode: lax
`

// fakeCheckout creates the files of a checkout that the command reads.
func fakeCheckout(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	files := map[string][]byte{
		"go.work":                []byte("go 1.26.0\n\nuse (\n\t./operators/zebra\n\t./sdk\n\t./testkit\n)\n"),
		"sdk/go.mod":             []byte("module github.com/homeostat-dev/homeostat/sdk\n"),
		"testkit/go.mod":         []byte("module github.com/homeostat-dev/homeostat/testkit\n"),
		".golangci.yml":          []byte(rules),
		"operators/zebra/go.mod": nil,
	}
	if err := writeFiles(root, files); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestLocate(t *testing.T) {
	t.Parallel()
	root, other, elsewhere := fakeCheckout(t), fakeCheckout(t), t.TempDir()
	for name, tc := range map[string]struct {
		reason string
		r      request
		cwd    string
		want   location
	}{
		"root": {
			"operators have a folder",
			request{name: "a"},
			root,
			location{dir: root + "/operators/a", display: "operators/a", root: root, homeostat: root},
		},
		"below": {
			"every folder of a checkout belongs to it",
			request{name: "a"},
			root + "/sdk",
			location{dir: root + "/operators/a", display: root + "/operators/a", root: root, homeostat: root},
		},
		"out of it": {
			"the requested folder is outside",
			request{name: "a", dir: elsewhere + "/b"},
			root,
			location{dir: elsewhere + "/b", display: elsewhere + "/b", homeostat: root},
		},
		"flag": {
			"the user's flag has precedence",
			request{name: "a", homeostat: other + "/sdk"},
			elsewhere,
			location{dir: elsewhere + "/a", display: "a", homeostat: other},
		},
	} {
		got, err := locate(tc.r, tc.cwd)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(location{})); diff != "" {
			t.Errorf("%s: %s, but -want +got:\n%s", name, tc.reason, diff)
		}
	}
}

// The printed commands work in the current folder.
func TestNextSteps(t *testing.T) {
	t.Parallel()
	const inside = "It is in go.work and .golangci.yml now. Next:\n\n"
	const commit = "  git init && git add . && git commit -m 'Add the operator'  # make verify compares with the last commit\n"
	root, repository := fakeCheckout(t), t.TempDir()
	mustRun(t, repository, "git", "init", "--quiet")
	for name, tc := range map[string]struct {
		cwd    string
		inside bool
		want   string
	}{
		"root":    {root, true, inside + "  make test/operators/a\n  make up\n"},
		"below":   {root + "/operators", true, inside + "  cd " + root + "\n  make test/operators/a\n  make up\n"},
		"outside": {t.TempDir(), false, "Next:\n\n  cd a\n" + commit + "  make test\n  make up\n"},
		"in git":  {repository, false, "Next:\n\n  cd a\n  make test\n  make up\n"},
	} {
		at, err := locate(request{name: "a"}, tc.cwd)
		if err != nil {
			t.Fatal(err)
		}
		op := &operator{Name: "a", Inside: tc.inside}
		if diff := cmp.Diff(tc.want, op.nextSteps(t.Context(), at)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// A program that was built from a checkout finds the checkout from any folder.
func TestLocateByBuildSource(t *testing.T) {
	t.Parallel()
	got, err := locate(request{name: "a"}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	if got.homeostat != want || got.root != "" {
		t.Errorf("the checkout is %q, want %q", got.homeostat, want)
	}
}

func TestWorkspace(t *testing.T) {
	t.Parallel()
	root := fakeCheckout(t)
	at := location{root: root}
	files, err := at.workspace(&operator{Name: "web-shop"})
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFiles(root, files); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"go.work": "go 1.26.0\n\nuse (\n\t./operators/web-shop\n\t./operators/zebra\n\t./sdk\n\t./testkit\n)\n",
		".golangci.yml": `linters:
  settings:
    depguard:
      rules:
        web-shop:
          list-mode: lax
          files: ["${config-path}/operators/web-shop/**"]
          allow: [github.com/homeostat-dev/homeostat/operators/web-shop]
          deny:
            - pkg: github.com/homeostat-dev/homeostat/operators
              desc: operators ship one by one and never import each other
        everywhere:
          list-mode: lax
`,
	} {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s, -want +got:\n%s", name, diff)
		}
	}
}

// A new object has a status that kstatus takes for that of an object in progress: see TestHealth of the SDK.
func TestNewObjectIsInProgress(t *testing.T) {
	t.Parallel()
	for _, python := range []bool{false, true} {
		op, err := newOperator(request{name: "a", group: "example.com", kind: "Database", version: "v1"})
		if err != nil {
			t.Fatal(err)
		}
		op.Python = python
		files, err := op.files()
		if err != nil {
			t.Fatal(err)
		}
		var definition struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema struct {
							Properties map[string]struct{ Default any }
						}
					}
				}
			}
		}
		if err := yaml.Unmarshal(files[op.definitionFile()], &definition); err != nil || len(definition.Spec.Versions) != 1 {
			t.Fatalf("%v, %+v", err, definition)
		}
		got := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Default
		if diff := cmp.Diff(any(map[string]any{"observedGeneration": -1.0}), got); diff != "" {
			t.Errorf("with python=%v, the default of the status: -want +got:\n%s", python, diff)
		}
	}
}
