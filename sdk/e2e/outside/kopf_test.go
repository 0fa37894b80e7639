package outside

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const fromKopf = "../../../docs/from-kopf.md"

// The Go snippets of the guide form one program that compiles and passes its tests.
func TestFromKopf(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(fromKopf)
	if err != nil {
		t.Fatal(err)
	}
	dir := newModule(t, "database")
	files := 0
	for _, s := range snippets(string(text)) {
		if s.file == "" {
			continue
		}
		files++
		if err := os.WriteFile(filepath.Join(dir, s.file), []byte(s.text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if files == 0 {
		t.Fatalf("%s has no file", fromKopf)
	}
	vet(t, dir)
	goCommand(t, dir, "test", "./...")
}

// The Python snippets of the guide are valid Python.
func TestFromKopfPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	text, err := os.ReadFile(fromKopf)
	if err != nil {
		t.Fatal(err)
	}
	found := fence.FindAllStringSubmatch(string(text), -1)
	checked := 0
	for _, m := range found {
		if m[1] != "python" {
			continue
		}
		checked++
		cmd := exec.CommandContext(t.Context(), python, "-c", "import ast, sys; ast.parse(sys.stdin.read())")
		cmd.Stdin = strings.NewReader(m[3])
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s\n%s", fromKopf, err, m[3], out)
		}
	}
	if checked == 0 {
		t.Errorf("%s has no Python", fromKopf)
	}
}
