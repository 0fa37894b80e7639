package outside

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const firstOperator = "../../../docs/first-operator.md"

// The files of the guide are an operator that passes its tests.
func TestFirstOperator(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(firstOperator)
	if err != nil {
		t.Fatal(err)
	}
	dir := newModule(t, "gadget") // for its go.mod
	old, err := filepath.Glob(filepath.Join(dir, "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range old {
		if name := filepath.Base(path); name != "go.mod" && name != "go.sum" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
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
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+flags)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("a command of %s fails: %v\n%s\n%s", firstOperator, err, s.text, out)
		}
	}
	if ran == 0 {
		t.Errorf("%s has no command to run", firstOperator)
	}
	vet(t, dir)
}
