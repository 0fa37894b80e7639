package outside

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	// The go command that the test starts uses these packages. The imports invalidate cached test results when they change.
	_ "github.com/homeostat-dev/homeostat/sdk"
	_ "github.com/homeostat-dev/homeostat/testkit"
)

func TestOutsideModule(t *testing.T) {
	t.Parallel()
	dir := newModule(t, "gadget")
	for _, args := range [][]string{{"build", "./..."}, {"test", "./..."}} {
		goCommand(t, dir, args...)
	}
	vet(t, dir)
}

// newModule creates a module of that name outside the repository. It requires both libraries by their folders, as for the
// use of an unreleased version.
func newModule(t *testing.T, name string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS("testdata/"+name)); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	const ours = "github.com/homeostat-dev/homeostat/"
	mod := fmt.Appendf(nil, "module example.com/%s\n\ngo 1.26.0\n", name)
	for _, sibling := range []string{"sdk", "testkit"} {
		mod = fmt.Appendf(mod, "\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", ours+sibling, filepath.Join(root, sibling))
	}
	for _, nested := range []string{"testkit/cmd/testkit", "testkit/sandbox"} { // for the commands of the guide
		mod = fmt.Appendf(mod, "\nreplace %s => %s\n", ours+nested, filepath.Join(root, nested))
	}
	// Checksums are copied from this module, which has the same requirements: a test must not depend on a checksum database.
	sums, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"go.mod": mod, "go.sum": sums} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// vet vets the module, but not with -short: the go command first vets each package of Kubernetes.
func vet(t *testing.T, dir string) {
	t.Helper()
	if !testing.Short() {
		goCommand(t, dir, "vet", "./...")
	}
}

// flags disable the vet of go test, see vet.
const flags = "-mod=mod -vet=off"

func goCommand(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+flags)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	t.Logf("go %s: %v", args[0], time.Since(start).Round(time.Millisecond))
	if err != nil {
		t.Fatalf("A module outside the repository must be able to use both.\ngo %s: %v\n%s", args[0], err, out)
	}
}
