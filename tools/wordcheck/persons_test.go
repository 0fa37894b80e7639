package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestPersons(t *testing.T) {
	t.Parallel()
	says := func(at, word string) []string {
		return []string{at + `: text says "` + word + `": name the user, controller or object that is meant`}
	}
	for name, c := range map[string]struct {
		reason, name, source string
		want                 []string
	}{
		"Plain": {"The sentence names its actor.", "a.md", "A user deletes it.\n", nil},
		"Comment": {
			"It hides which actor is meant.", "a.go", "package a\n\n// F returns what nobody owns.\n", says("a.go:3", "nobody"),
		},
		"Test": {
			"Tests are read as much as other code.", "a_test.go", "// Somebody changes it.\n", says("a_test.go:1", "Somebody"),
		},
		"String": {"Users read the messages.", "a.go", "x := \"whoever has it\"\n", says("a.go:1", "whoever")},
		"Schema": {
			"kubectl explain prints it.", "operators/x/api/v1/a.go", "// whatever\n", says("operators/x/api/v1/a.go:1", "whatever"),
		},
		"YAML": {
			"Users read charts and alerts.", "chart/values.yaml", "# x\na: Nobody\n", says("chart/values.yaml:2", "Nobody"),
		},
		"Markdown":    {"Users read the documentation.", "a.md", "Nobody reads it.\n", says("a.md:1", "Nobody")},
		"NoExtension": {"Scripts and makefiles are texts.", "Makefile", "# whatever\n", says("Makefile:1", "whatever")},
		"License":     {"It has an author of its own.", "LICENSE", "nobody\n", nil},
		"Code":        {"Markdown may quote code.", "a.md", "The words `somebody` and `nobody`.\n", nil},
		"NoBody":      {"It is an identifier of net/http.", "a.go", "x := http.NoBody\n", nil},
		"Part":        {"It is part of another word.", "a.go", "x := readWhateverIsThere()\n", nil},
		"Binary":      {"A binary file is no text.", "a.png", "\x00 nobody\n", nil},
		"Fixture":     {"Fixtures may be wrong on purpose.", "a/testdata/a.txt", "nobody\n", nil},
		"Released":    {"What is released stays.", "olm/released/x/a.yaml", "nobody\n", nil},
		"Account":     {"The file lists accounts.", "tools/images/files/passwd", "nobody:x:65534\n", nil},
		"NoPrefix":    {"The exceptions are whole names.", "a/LICENSE", "nobody\n", says("a/LICENSE:1", "nobody")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := checkPersons(fstest.MapFS{c.name: {Data: []byte(c.source)}}, []string{c.name})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n%s", c.reason, diff)
			}
		})
	}
}

func TestPersonsInLink(t *testing.T) {
	t.Parallel()
	got, err := checkPersons(fstest.MapFS{"a": {Data: []byte("nobody"), Mode: fs.ModeSymlink}}, []string{"a", "deleted"})
	if err != nil || len(got) > 0 {
		t.Errorf("a link and a deleted file have no text of their own: got %q, %v", got, err)
	}
}

// Files that git does not track, such as caches, are not checked.
func TestTracked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := checkTracked(dir); err == nil {
		t.Error("a folder without a repository was taken to have no problem")
	}
	for _, name := range []string{"tracked.txt", "untracked.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("nobody\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "tracked.txt"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	got, err := checkTracked(dir)
	if err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "tracked.txt:1: ") {
		t.Errorf("one file is tracked: got %q, %v", got, err)
	}
}
