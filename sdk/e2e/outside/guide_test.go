package outside

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const guide = "../../../docs/testing.md"

// The guide contains the files of a module and commands. The test writes the files and runs the commands, which must
// succeed.
func TestGuideToTesting(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the guide tries every fault")
	}
	dir := newModule(t, "gadget")
	if err := os.Remove(filepath.Join(dir, "gadget_test.go")); err != nil { // the guide contains this file
		t.Fatal(err)
	}
	tools := t.TempDir()
	goCommand(t, "../../../testkit/cmd/testkit", "build", "-o", filepath.Join(tools, "testkit"), ".")
	follow(t, guide, dir, "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// follow writes the files of a page to a folder and runs its commands there.
func follow(t *testing.T, page, dir string, env ...string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, s := range snippets(string(text)) {
		if s.file != "" {
			if err := os.WriteFile(filepath.Join(dir, s.file), []byte(s.text), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		ran++
		cmd := exec.CommandContext(t.Context(), "bash", "-euc", s.text)
		cmd.Dir = dir
		cmd.Env = append(append(os.Environ(), "GOWORK=off", "GOFLAGS="+flags), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("a command of %s fails: %v\n%s\n%s", page, err, s.text, out)
		}
	}
	if ran == 0 {
		t.Errorf("%s has no command to run", page)
	}
}

// snippet is a fenced block: a file if it has a name, otherwise shell commands.
type snippet struct{ file, text string }

var fence = regexp.MustCompile("(?ms)^```(\\w+)(?: (\\S+))?\n(.*?)^```$")

func snippets(markdown string) []snippet {
	var all []snippet
	for _, m := range fence.FindAllStringSubmatch(markdown, -1) {
		if m[2] != "" || m[1] == "sh" {
			all = append(all, snippet{file: m[2], text: m[3]})
		}
	}
	return all
}

func TestSnippets(t *testing.T) {
	t.Parallel()
	got := snippets("# Title\n\n```go a_test.go\npackage a\n```\n\n```go\nx := 1\n```\n```sh\ngo test\n```\n")
	want := []snippet{{"a_test.go", "package a\n"}, {"", "go test\n"}}
	if fmt.Sprint(got) != fmt.Sprint(want) || strings.Contains(fmt.Sprint(got), "x := 1") {
		t.Errorf("got %q, want %q", got, want)
	}
}
