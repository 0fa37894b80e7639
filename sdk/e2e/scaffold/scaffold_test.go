package scaffold

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	// The go command that the tests start uses these packages. The imports invalidate cached test results when they change.
	_ "github.com/homeostat-dev/homeostat/sdk"
	_ "github.com/homeostat-dev/homeostat/sdk/cmd/homeostat/scaffold"
	_ "github.com/homeostat-dev/homeostat/testkit/chaos"
	_ "github.com/homeostat-dev/homeostat/testkit/gen"
)

const root = "../../.."

// A module outside of the repository passes its own tests unchanged, with a kind of either scope. With -short these try only
// some of the faults.
func TestOutsideModule(t *testing.T) {
	t.Parallel()
	dir := newOutsideModule(t, "web-shop", "--group", "shop.example.com", "--kind", "WebShop")
	requireGeneratedUnchanged(t, dir, "web-shop")
	before := contents(t, dir)
	inWorkspace(t, dir, "make", "tidy")
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Errorf("make tidy changes files, -before +after:\n%s", diff)
	}
	if mod := before["/go.mod"]; strings.Contains(mod, "replace") {
		t.Errorf("go.mod has a replace directive:\n%s", mod)
	}
	checkCode(t, dir)
	if !testing.Short() {
		inWorkspace(t, dir, "go", "tool", "testkit", "--help")
	}
	inWorkspace(t, dir, "go", append([]string{"test", "-timeout", "30m"}, withShortFlag("./...")...)...)
}

// A module with a cluster-scoped kind passes its own tests. With -short these try no faults: TestOutsideModule does.
func TestClusterScopedModule(t *testing.T) {
	t.Parallel()
	dir := newOutsideModule(t, "team", "--group", "shop.example.com", "--kind", "Team", "--scope", "Cluster")
	requireGeneratedUnchanged(t, dir, "team")
	checkCode(t, dir)
	args := withShortFlag("./...")
	if testing.Short() {
		args = append([]string{"-skip", "TestFaults|TestPathIndependence"}, args...)
	}
	inWorkspace(t, dir, "go", append([]string{"test", "-timeout", "30m"}, args...)...)
}

// The generated module works with any name of the operator and its kind.
func TestNames(t *testing.T) {
	t.Parallel()
	const longName, longKind = "the-longest-name-that-an-operator-may-have-is-this", "TheLongestNameThatAKindMayHaveIsThisHere"
	for name, args := range map[string][]string{
		"proxy":  {"--group", "a.io", "--kind", "Proxy", "--version", "v1"},
		"type":   {"--group", "events.example.com", "--kind", "Service", "--module", "example.org/x.y/z-1"},
		longName: {"--group", "z.example.com", "--kind", longKind, "--version", "v2beta11"},
	} {
		if testing.Short() && name == longName {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := newOutsideModule(t, name, args...)
			requireGeneratedUnchanged(t, dir, name)
			checkCode(t, dir)
		})
	}
}

// In the repository the module is added to the workspace and passes the checks of the workspace.
func TestInsideModule(t *testing.T) {
	t.Parallel()
	checkout := t.TempDir()
	clone(t, checkout)
	workspace := func(args ...string) { t.Helper(); command(t, checkout, "GOWORK=", "go", args...) }
	workspace("run", "./sdk/cmd/homeostat", "new", "proxy", "--group", "example.com", "--kind", "Proxy")
	dir := filepath.Join(checkout, "operators", "proxy")
	requireGeneratedUnchanged(t, dir, "proxy")
	run(t, dir, "go", "mod", "tidy", "-diff")
	run(t, checkout, toolPath(t, "modcheck"), ".")
	run(t, checkout, toolPath(t, "linkcheck"), ".")
	if out := run(t, checkout, "go", "work", "edit", "-json", "go.work"); !strings.Contains(out, `"./operators/proxy"`) {
		t.Errorf("go.work does not use the module:\n%s", out)
	}
	if testing.Short() {
		return // nothing is compiled yet in the copied folder
	}
	workspace("vet", "./operators/proxy/...")
	workspace("test", "-timeout", "30m", "-short", "./operators/proxy/...")
}

// newOutsideModule runs the command to create a module in a folder outside of the repository.
func newOutsideModule(t *testing.T, name string, args ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), name)
	run(t, root, "go", append([]string{
		"-C", "sdk/cmd/homeostat", "run", ".", "new", name, "--dir", dir,
	}, args...)...)
	return dir
}

// requireGeneratedUnchanged fails if generate changes a file.
func requireGeneratedUnchanged(t *testing.T, dir, name string) {
	t.Helper()
	before := contents(t, dir)
	generate(t, dir, name)
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Errorf("the output of controller-gen differs, -template +controller-gen:\n%s", diff)
	}
}

// generate runs the commands of `make generate`.
func generate(t *testing.T, dir, name string) {
	t.Helper()
	generator := toolPath(t, "controller-gen")
	inWorkspace(t, dir, generator, "object", "paths=./...")
	inWorkspace(t, dir, generator, "paths=./...",
		"crd", "output:crd:dir=config/crd", "rbac:roleName="+name, "output:rbac:dir=config/rbac",
		"webhook", "output:webhook:dir=config/webhook")
}

// contents returns the files of a folder, except those that make builds.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if err == nil && entry.Name() == "build" {
				return fs.SkipDir
			}
			return err
		}
		data, err := os.ReadFile(file)
		files[strings.TrimPrefix(file, dir)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// clone copies the repository as it is on disk, without its history and its build output.
func clone(t *testing.T, to string) {
	t.Helper()
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		switch {
		case err != nil:
			return err
		case name == ".git" && !entry.IsDir(): // of a worktree
			return nil
		case name == ".git" || name == "build":
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// toolPath returns the path of a pinned tool.
func toolPath(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(run(t, filepath.Join(root, "tools"), "go", "tool", "-n", name))
}

// checkCode vets the packages of a module and their tests. With -short it only compiles them: to vet the module first vets
// each package of Kubernetes, and `make lint/scaffold` vets the output, too.
func checkCode(t *testing.T, dir string) {
	t.Helper()
	if testing.Short() {
		inWorkspace(t, dir, "go", "list", "-export", "-test", "./...")
		return
	}
	inWorkspace(t, dir, "go", "vet", "./...")
}

// withShortFlag prepends -short to the arguments if this test runs with it, and disables vet, as checkCode does.
func withShortFlag(args ...string) []string {
	if testing.Short() {
		return append([]string{"-short", "-vet=off"}, args...)
	}
	return args
}

// run runs a command without the workspace and returns its standard output.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	return command(t, dir, "GOWORK=off", name, args...)
}

// inWorkspace runs a command in the workspace of the folder, which names the SDK, and returns its standard output.
func inWorkspace(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	return command(t, dir, "GOWORK=", name, args...)
}

func command(t *testing.T, dir, env, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	began := time.Now()
	out, err := cmd.Output()
	t.Logf("%s %s: %v", filepath.Base(name), args[0], time.Since(began).Round(time.Millisecond))
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}
