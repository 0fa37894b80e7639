package programs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homeostat-dev/homeostat/olm/internal/programs"
)

// In a clone without the commit of a previous version, the notice names the commit and the command that fetches it.
func TestPreviousRelease(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	origin, clone := t.TempDir(), t.TempDir()
	const bundle, image = "released/gadget/v0.1.0/manifests/gadget.clusterserviceversion.yaml", "gadget@sha256:12"
	git(t, origin, "init", "--quiet")
	write(t, filepath.Join(origin, bundle), "image: "+image+"\n")
	git(t, origin, "add", ".")
	git(t, origin, "commit", "--quiet", "--message=first")
	commit := git(t, origin, "rev-parse", "HEAD")
	write(t, filepath.Join(origin, "released/README.md"), "| v0.1.0 | "+commit+" |\n")
	git(t, origin, "add", ".")
	git(t, origin, "commit", "--quiet", "--message=second")
	git(t, clone, "clone", "--quiet", "--depth=1", "file://"+origin, ".")

	said := ""
	f := &programs.PreviousRelease{Released: filepath.Join(clone, "released"), Notice: func(line string) { said = line }}
	if program, err := f.Program(t.Context(), image); program != "" || err != nil {
		t.Errorf("the program is %q, %v", program, err)
	}
	if !strings.Contains(said, commit) || !strings.Contains(said, "git fetch --unshallow") {
		t.Errorf("it says %q", said)
	}
	if program, err := f.Program(t.Context(), "gadget@sha256:34"); program != "" || err != nil {
		t.Errorf("the program of now is %q, %v", program, err)
	}

	git(t, clone, "fetch", "--quiet", "--unshallow")
	// The error that the history has no such operator shows that it was searched.
	if _, err := f.Program(t.Context(), image); err == nil || !strings.Contains(err.Error(), "looking for gadget v0.1.0") {
		t.Errorf("with the history it is %v", err)
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{
		"-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false",
	}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
