package scaffold

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// outsideProject writes an operator outside of a checkout, as a colleague has it after a clone, and a repository of
// Homeostat with its modules. The operator is built with the commit of the repository.
func outsideProject(t *testing.T) (dir, repository, commit string) {
	t.Helper()
	repository, dir = t.TempDir(), t.TempDir()
	files := map[string][]byte{}
	for _, m := range replacedModules {
		files[m+"/go.mod"] = []byte("module " + modulePrefix + m + "\n\ngo 1.26.0\n")
		files[m+"/m.go"] = []byte("package m\n")
	}
	if err := writeFiles(repository, files); err != nil {
		t.Fatal(err)
	}
	mustRun(t, repository, "git", "init", "--quiet")
	mustRun(t, repository, "git", "add", ".")
	mustRun(t, repository, "git", "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "a")
	commit = mustRun(t, repository, "git", "rev-parse", "HEAD")
	op, err := newOperator(request{name: "shop", kind: "WebShop", group: "a.example.com", version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	op.setLocation(location{homeostat: repository, commit: commit})
	written, err := op.files()
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFiles(dir, map[string][]byte{
		"Makefile": written["Makefile"],
		"go.mod":   []byte("module a.example.com/shop\n\ngo 1.26.0\n\nrequire (\n\t" + modulePrefix + "sdk v0.0.0\n)\n"),
		"a.go":     []byte("package shop\n\nimport _ \"" + modulePrefix + "sdk\"\n"),
	}); err != nil {
		t.Fatal(err)
	}
	return dir, repository, commit
}

func mustRun(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := runIn(t, dir, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

func runIn(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=", "MAKEFLAGS=", "MAKEOVERRIDES=", "MAKELEVEL=0", "GOPROXY=off")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// After a clone, make fetches the commit of the SDK, and the go command finds it.
func TestMakeFetchesTheCheckout(t *testing.T) {
	t.Parallel()
	dir, repository, commit := outsideProject(t)
	mustRun(t, dir, "make", "sdk", "HOMEOSTAT_REPOSITORY="+repository)
	fetched := mustRun(t, dir, "go", "list", "-m", "-f", "{{.Dir}}", modulePrefix+"sdk")
	if want := filepath.Join(dir, ".homeostat", commit, "sdk"); !sameFile(t, fetched, want) {
		t.Errorf("the SDK is in %s, want %s", fetched, want)
	}
	mustRun(t, dir, "go", "list", "-deps", "./...")
	mustRun(t, dir, "make", "sdk", "HOMEOSTAT_REPOSITORY=/dev/null") // it is there
}

// The workspace follows the checkout that the user names, and ends with the first released version in go.mod.
func TestMakeWritesTheWorkspace(t *testing.T) {
	t.Parallel()
	dir, repository, _ := outsideProject(t)
	mustRun(t, dir, "make", "sdk", "HOMEOSTAT="+repository)
	got, err := os.ReadFile(filepath.Join(dir, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	if want := string(goWork("1.26.0", repository)); string(got) != want {
		t.Errorf("make writes\n%s\nand homeostat new writes\n%s", got, want)
	}
	if out, err := runIn(t, dir, "make", "sdk", "HOMEOSTAT="+dir); err == nil || !strings.Contains(out, "is no checkout") {
		t.Errorf("with another folder: %v\n%s", err, out)
	}
	if out, err := runIn(t, dir, "make", "sdk", "HOMEOSTAT_REF="); err == nil || !strings.Contains(out, "Set HOMEOSTAT to") {
		t.Errorf("without a commit: %v\n%s", err, out)
	}
	mustRun(t, dir, "go", "mod", "edit", "-require", modulePrefix+"sdk@v0.3.0")
	mustRun(t, dir, "make", "sdk")
	if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
		t.Error("go.work is left after the release")
	}
	if err := writeFiles(dir, map[string][]byte{"go.work": []byte("go 1.26.0\n\nuse .\n")}); err != nil {
		t.Fatal(err)
	}
	mustRun(t, dir, "make", "sdk")
	if _, err := os.Stat(filepath.Join(dir, "go.work")); err != nil {
		t.Error("the user's go.work was removed")
	}
	if got := mustRun(t, dir, "make", "--eval=print: ; @echo $(HOMEOSTAT_REF)", "print"); got != "sdk/v0.3.0" {
		t.Errorf("after the release the tools are those of %s", got)
	}
}

// Each target that the README names exists and is in the list.
func TestMakeHelp(t *testing.T) {
	t.Parallel()
	dir, _, _ := outsideProject(t)
	out := mustRun(t, dir, "make")
	for target := range strings.FieldsSeq("up down build test test-short add generate fmt tidy clean verify lint crd-check " +
		"image chart bundle catalog olm-test docker-build deploy undeploy undeploy-all help") {
		if !strings.Contains("\n  "+out, "\n  "+target+" ") {
			t.Errorf("make help does not list %s:\n%s", target, out)
		}
	}
}

// Without a commit, make verify says so before it runs a check, and make crd-check has nothing to compare.
func TestMakeWithoutCommit(t *testing.T) {
	t.Parallel()
	dir, repository, _ := outsideProject(t)
	for _, isRepository := range []bool{false, true} {
		if isRepository {
			mustRun(t, dir, "git", "init", "--quiet")
		}
		out, err := runIn(t, dir, "make", "verify", "CONTROLLER_GEN=false", "HOMEOSTAT="+repository)
		if err == nil || !strings.HasPrefix(out, "make verify compares with the last commit, and there is none: run git init") {
			t.Errorf("make verify, with git init %v: %v\n%s", isRepository, err, out)
		}
		out = mustRun(t, dir, "make", "crd-check", "HOMEOSTAT="+repository)
		if !strings.Contains(out, "There is no commit to compare the CRDs with") {
			t.Errorf("make crd-check prints\n%s", out)
		}
	}
}

// The cluster of make up DETACH=1 stays until make down.
func TestMakeUp(t *testing.T) {
	t.Parallel()
	dir, repository, _ := outsideProject(t)
	for args, want := range map[string]string{
		"":                     "go tool testkit up .",
		"DETACH=1":             "go tool testkit up --detach .",
		"DETACH=1 CONTEXT=dev": "go tool testkit up --detach --context 'dev' .",
	} {
		out := mustRun(t, dir, "make", append([]string{"--dry-run", "up", "HOMEOSTAT=" + repository}, strings.Fields(args)...)...)
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("make up %s runs\n%s\nwant %s", args, out, want)
		}
	}
}

// The command that changes the project is that of the checkout, as the other tools are. It runs in the project.
func TestMakeAdd(t *testing.T) {
	t.Parallel()
	dir := newProject(t)
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"add", "HOMEOSTAT=" + checkout(cwd)}
	mustRun(t, dir, "make", append(args, "ARGS=webhook --kind WebShop --defaulting")...)
	if _, err := os.Stat(filepath.Join(dir, "internal/webhooks/webshop_admission.go")); err != nil {
		t.Errorf("make add has not written the webhooks: %v", err)
	}
	if out, err := runIn(t, dir, "make", args...); err == nil || !strings.Contains(out, "what is to be added?") {
		t.Errorf("without ARGS: %v\n%s", err, out)
	}
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := os.Stat(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := os.Stat(b)
	if err != nil {
		t.Fatal(err)
	}
	return os.SameFile(x, y)
}
