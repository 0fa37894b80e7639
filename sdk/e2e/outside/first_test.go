package outside

import (
	"os"
	"path/filepath"
	"testing"
)

const firstOperator = "../../../docs/first-operator.md"

// The files of the guide are an operator that passes its tests.
func TestFirstOperator(t *testing.T) {
	t.Parallel()
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
	follow(t, firstOperator, dir)
	vet(t, dir)
}
