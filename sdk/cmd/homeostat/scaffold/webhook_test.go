package scaffold

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// newProject writes a project without go.sum and returns its folder.
func newProject(t *testing.T) string {
	t.Helper()
	op, err := newOperator(request{name: "web-shop", group: "shop.example.com", kind: "WebShop", version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	op.setLocation(location{version: "v1.0.0"})
	files, err := op.files()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := writeFiles(dir, files); err != nil {
		t.Fatal(err)
	}
	return dir
}

// addIn runs `homeostat add` in a folder.
func addIn(t *testing.T, dir string, args ...string) (code int, stderr string) {
	t.Helper()
	t.Chdir(dir)
	code, _, stderr = homeostat(t, append([]string{"add"}, args...)...)
	return code, stderr
}

func replaceIn(t *testing.T, file, from, to string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(content, []byte(from)) {
		t.Fatalf("%s has no %q (%v)", file, from, err)
	}
	if err := os.WriteFile(file, bytes.ReplaceAll(content, []byte(from), []byte(to)), fileMode); err != nil {
		t.Fatal(err)
	}
}

// contentsOf returns all files of a project without those of git.
func contentsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.Name() == ".git":
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		content, err := os.ReadFile(name)
		all[strings.TrimPrefix(name, dir+"/")] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Wrong usage is one sentence with exit code 2, and changes nothing.
func TestAddWebhookRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, dir string)
		args   string
		want   string
	}{
		"nothing to add":   {nil, "", "what is to be added?"},
		"unknown part":     {nil, "webhok", `"webhok" cannot be added`},
		"unknown flag":     {nil, "webhook --color", "flag provided but not defined: -color"},
		"superfluous name": {nil, "webhook WebShop", `"WebShop" is not expected: name the kind by --kind`},
		"unknown kind":     {nil, "webhook --kind Shop", `--kind "Shop" is not a kind of this project, which has WebShop`},
		"no project": {func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(filepath.Join(dir, "go.mod")); err != nil {
				t.Fatal(err)
			}
		}, "webhook", "this folder is in no project"},
		"another module": {func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(filepath.Join(dir, deploymentFile)); err != nil {
				t.Fatal(err)
			}
		}, "webhook", "is no project of `homeostat new`, because it has no config/manager/deployment.yaml"},
		"no operator": {func(t *testing.T, dir string) {
			t.Helper()
			replaceIn(t, filepath.Join(dir, "webshop.go"), "&sdk.Operator[", "&other.Operator[")
		}, "webhook", "has no operator: its root package needs a variable"},
		"function": {func(t *testing.T, dir string) {
			t.Helper()
			replaceIn(t, filepath.Join(dir, "webshop.go"), "var Operator = &",
				"func New() any { return operator }\n\nvar operator = *&")
		}, "version v2", "a function that returns an operator returns a copy of it"},
		"no sample": {func(t *testing.T, dir string) {
			t.Helper()
			replaceIn(t, filepath.Join(dir, "config/samples/example.yaml"), "kind: WebShop", "kind: Shop")
		}, "webhook", "config/samples has no manifest with one WebShop of shop.example.com/v1"},
		"changed manifests": {func(t *testing.T, dir string) {
			t.Helper()
			replaceIn(t, filepath.Join(dir, "config/default/kustomization.yaml"), "../manager", "../program")
		}, "webhook", "config/default/kustomization.yaml: add to the resources:\n  - ../webhook\n"},
		"changes that are not committed": {func(t *testing.T, dir string) {
			t.Helper()
			if out, err := exec.CommandContext(t.Context(), "git", "init", "--quiet", dir).CombinedOutput(); err != nil {
				t.Fatalf("git init: %v\n%s", err, out)
			}
		}, "webhook", "the project has changes that are not committed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newProject(t)
			if tc.change != nil {
				tc.change(t, dir)
			}
			before := contentsOf(t, dir)
			code, stderr := addIn(t, dir, strings.Fields(tc.args)...)
			if code != exitUsage || !strings.Contains(stderr, tc.want) {
				t.Errorf("code %d, %s\nwant %s", code, stderr, tc.want)
			}
			if diff := cmp.Diff(before, contentsOf(t, dir)); diff != "" {
				t.Errorf("files have changed, -before +after:\n%s", diff)
			}
		})
	}
}

// Files of the user keep their content, apart from inserted lines. Lines that a person has inserted are not repeated.
func TestAddWebhookInsertsLines(t *testing.T) {
	dir := newProject(t)
	replaceIn(t, filepath.Join(dir, "config/default/kustomization.yaml"), "  - ../manager\n", "  - ../webhook\n")
	replaceIn(t, filepath.Join(dir, "cmd/main.go"), "program.Main(webshop.Operator)",
		"println(webshop.Operator.Name); program.Main(webshop.Operator)")
	before := contentsOf(t, dir)
	if code, stderr := addIn(t, dir, "webhook", "--defaulting"); code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	after := contentsOf(t, dir)
	var changed []string
	for name := range before {
		if before[name] != after[name] {
			changed = append(changed, name)
		}
	}
	if len(changed) != 4 || after["config/default/kustomization.yaml"] != before["config/default/kustomization.yaml"] {
		t.Errorf("changed are %q, want main.go, the Deployment, its NetworkPolicy and the overlay namespaced", changed)
	}
	for _, part := range []string{
		"\t\"shop.example.com/web-shop\"\n\t\"shop.example.com/web-shop/internal/webhooks\"\n",
		"println(webshop.Operator.Name)", "program.Main(webhooks.Operator)",
	} {
		if !strings.Contains(after["cmd/main.go"], part) {
			t.Errorf("main.go has no %s:\n%s", part, after["cmd/main.go"])
		}
	}
	if strings.Contains(after["config/webhook/manifests.yaml"], "Validating") {
		t.Error("there is a validating webhook, although only the other one was requested")
	}
}

// A program with flags of its own makes its operator when they have their values. The lines that a person adds to it use the
// new package, so that they are printed after it is written, unless they are there.
func TestAddWebhookToProgramWithFlags(t *testing.T) {
	for name, isThere := range map[string]bool{"lines to add": false, "lines that are there": true} {
		t.Run(name, func(t *testing.T) {
			dir := newProject(t)
			main := filepath.Join(dir, "cmd/main.go")
			replaceIn(t, main, "program.Main(webshop.Operator)", "(&program.Program{Name: \"shops\", Operators: operators}).Main()")
			if isThere {
				replaceIn(t, main, "func main()", "var with = *webhooks.Operator\n\nfunc main()")
			}
			before := contentsOf(t, dir)
			t.Chdir(dir)
			code, stdout, stderr := homeostat(t, "add", "webhook")
			if code != 0 {
				t.Fatalf("code %d: %s", code, stderr)
			}
			requireLines(t, stdout, !isThere)
			after := contentsOf(t, dir)
			if diff := cmp.Diff(before["cmd/main.go"], after["cmd/main.go"]); diff != "" {
				t.Errorf("main.go has changed, -before +after:\n%s", diff)
			}
			if !strings.Contains(after["internal/webhooks/webshop.go"], "\nvar Operator = &webhook.Operator[") {
				t.Error("the package that the lines import is not written")
			}
			if manifests := after["config/webhook/manifests.yaml"]; !strings.Contains(manifests, "name: shops-webhook\n") {
				t.Errorf("the configurations do not have the name of the program:\n%s", manifests)
			}
			requireRefused(t, dir, "webhook", "the kind WebShop has webhooks already")
		})
	}
}

// requireLines checks whether the output has the lines for cmd/main.go.
func requireLines(t *testing.T, stdout string, want bool) {
	t.Helper()
	for _, part := range []string{
		"The place of these lines is not found: add them by hand.\n\ncmd/main.go: let the program run webhooks.Operator ",
		"\t\"shop.example.com/web-shop/internal/webhooks\"\n", "\twebhook.DefineFlags(fs)\n", "hooked := *webhooks.Operator\n",
	} {
		if strings.Contains(stdout, part) != want {
			t.Errorf("the output has %q: %t, want %t. It is\n%s", part, !want, want, stdout)
		}
	}
}

// Before the other files have their lines, nothing is written, and the lines that use the new package are not printed.
func TestAddWebhookPrintsLinesOfNewPackageLast(t *testing.T) {
	dir := newProject(t)
	replaceIn(t, filepath.Join(dir, "cmd/main.go"), "webshop.Operator", "operators()...")
	kustomization := filepath.Join(dir, "config/default/kustomization.yaml")
	replaceIn(t, kustomization, "../manager", "../program")
	requireRefused(t, dir, "webhook",
		"add them by hand, commit them and repeat the command\n\nconfig/default/kustomization.yaml: add to the resources:")
	t.Chdir(dir)
	if _, _, stderr := homeostat(t, "add", "webhook"); strings.Contains(stderr, "cmd/main.go") {
		t.Errorf("the message names main.go:\n%s", stderr)
	}
	replaceIn(t, kustomization, "../program", "../webhook")
	code, stdout, stderr := homeostat(t, "add", "webhook")
	if code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	requireLines(t, stdout, true)
}

// The sweep of the operator with its webhooks obstructs them, too.
func TestAddWebhookTriesFaultsOfWebhooks(t *testing.T) {
	dir := newProject(t)
	if code, stderr := addIn(t, dir, "webhook"); code != 0 {
		t.Fatal(stderr)
	}
	test := contentsOf(t, dir)["internal/webhooks/webshop_admission_test.go"]
	_, faults, _ := strings.Cut(test, "chaos.Faults{")
	if faults, _, _ = strings.Cut(faults, "}"); !strings.Contains(faults, "chaos.Webhook") {
		t.Errorf("the sweep tries %s", faults)
	}
}

// The object that the webhook refuses is the sample with an annotation. There is none if that would change metadata of the
// user, for defaulting alone, or for an operator of this repository.
func TestAddWebhookRefused(t *testing.T) {
	const sample = "config/samples/example.yaml"
	for name, tc := range map[string]struct {
		change func(t *testing.T, dir string)
		args   []string
		want   bool
	}{
		"validation": {nil, []string{"webhook"}, true},
		"defaulting": {nil, []string{"webhook", "--defaulting"}, false},
		"annotations": {func(t *testing.T, dir string) {
			t.Helper()
			replaceIn(t, filepath.Join(dir, sample), "spec:", "  annotations:\n    a: b\nspec:")
		}, []string{"webhook"}, false},
		"without OLM": {func(t *testing.T, dir string) {
			t.Helper()
			if err := os.RemoveAll(filepath.Join(dir, "olm")); err != nil {
				t.Fatal(err)
			}
		}, []string{"webhook"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newProject(t)
			if tc.change != nil {
				tc.change(t, dir)
			}
			if code, stderr := addIn(t, dir, tc.args...); code != 0 {
				t.Fatal(stderr)
			}
			files := contentsOf(t, dir)
			refused, found := files["olm/refused/webshop.yaml"]
			if found != tc.want {
				t.Fatalf("the file is written: %t", found)
			}
			want := strings.Replace(files[sample], "  name: example\n",
				"  name: refused\n  annotations:\n    shop.example.com/keep: perhaps\n", 1)
			if _, object, _ := strings.Cut(refused, "\n"); tc.want && object != want {
				t.Errorf("it is\n%s\nwant\n%s", object, want)
			}
		})
	}
}
