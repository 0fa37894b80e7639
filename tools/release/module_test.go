package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

const home = "example.com/team/repo"

// parsed returns a module in a folder that requires others and replaces each by a folder.
func parsed(t *testing.T, dir string, requires ...string) *goModule {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "module %s/%s\n\ngo 1.26.0\n\nrequire example.com/other v1.4.0\n", home, dir)
	for _, r := range requires {
		fmt.Fprintf(&text, "require %s/%s v0.0.0\nreplace %s/%s => ../%s\n", home, r, home, r, r)
	}
	f, err := modfile.Parse("go.mod", []byte(text.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &goModule{dir: dir, file: f, sum: []byte("example.com/other v1.4.0 h1:a=\nexample.com/other v1.4.0/go.mod h1:b=\n")}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	all := func(m ...*goModule) []*goModule { return m }
	for name, tc := range map[string]struct {
		modules []*goModule
		want    string
		reason  string
	}{
		"what is required comes first": {
			all(parsed(t, "a", "kit", "sdk"), parsed(t, "kit", "sdk"), parsed(t, "sdk")), "sdk kit a",
			"its checksum is in the go.sum of the next",
		},
		"without arrows by name": {all(parsed(t, "b"), parsed(t, "a")), "a b", "the same release has the same order"},
		"a circle": {
			all(parsed(t, "a", "b"), parsed(t, "b", "a"), parsed(t, "sdk")), "the modules a, b require each other in a circle",
			"each would need the checksum of the other",
		},
		"a module that stays here": {
			all(parsed(t, "a", "bench")), "a/go.mod requires " + home + "/bench, which is not released", "no module could import a",
		},
	} {
		sorted, err := dependencyOrder(home, tc.modules)
		var got []string
		for _, m := range sorted {
			got = append(got, m.dir)
		}
		if text := strings.Join(got, " "); text != tc.want && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %q and error %v, want %q: %s", name, text, err, tc.want, tc.reason)
		}
	}
}

func TestReleasedModule(t *testing.T) {
	t.Parallel()
	m := parsed(t, "a", "sdk")
	mod, sum, err := m.releasedFiles(home, "1.2.0", map[string]sums{home + "/sdk": {zip: "h1:zip=", mod: "h1:mod="}})
	if err != nil {
		t.Fatal(err)
	}
	const wantMod = "module example.com/team/repo/a\n\ngo 1.26.0\n\nrequire example.com/other v1.4.0\n\n" +
		"require example.com/team/repo/sdk v1.2.0\n"
	if string(mod) != wantMod {
		t.Errorf("its go.mod is\n%s\nwant\n%s", mod, wantMod)
	}
	const wantSum = "example.com/other v1.4.0 h1:a=\nexample.com/other v1.4.0/go.mod h1:b=\n" +
		"example.com/team/repo/sdk v1.2.0 h1:zip=\nexample.com/team/repo/sdk v1.2.0/go.mod h1:mod=\n"
	if string(sum) != wantSum {
		t.Errorf("its go.sum is\n%s\nwant\n%s", sum, wantSum)
	}
	if again, _, err := m.releasedFiles(home, "1.3.0", map[string]sums{home + "/sdk": {}}); err != nil ||
		!strings.Contains(string(again), "sdk v1.3.0") {
		t.Errorf("the first release has changed the module: %s, %v", again, err)
	}
	if err := m.file.AddReplace("example.com/other", "", "example.com/fork", "v1.0.0"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.releasedFiles(home, "1.2.0", map[string]sums{home + "/sdk": {}}); err == nil ||
		!strings.Contains(err.Error(), "replaces example.com/other, which has no effect for those who import") {
		t.Errorf("a replacement without effect for importers: %v", err)
	}
}

func TestModulesThatCannotBeReleased(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"a path of another folder": {"module example.com/repo/elsewhere\n", "the path of the module has to end in /a"},
		"no path":                  {"go 1.26.0\n", "the path of the module has to end in /a"},
		"nonsense":                 {"modul\n", "reading a module"},
	} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "a"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "a", "go.mod"), []byte(tc.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := loadModules(root, []string{"a"}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if _, err := repositoryOf(nil); err == nil || !strings.Contains(err.Error(), "there is no module to release") {
		t.Errorf("without modules: %v", err)
	}
}
