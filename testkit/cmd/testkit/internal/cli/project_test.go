package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

// Each project has a sandbox of its own, and the command down stops that of the present project only.
func TestSandboxPerProject(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	project := func() string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, "cmd"), 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	in := func(dir string, args ...string) result {
		t.Helper()
		cmd := w.command(args...)
		cmd.Dir = dir
		return w.wait(cmd)
	}
	first, second := project(), project()
	check(t, "up", in(first, "up", "--bare", "--detach"), 0, "To stop it: testkit down")
	check(t, "kubeconfig in a folder of the project", in(filepath.Join(first, "cmd"), "kubeconfig"), 0, "kubeconfig")
	check(t, "up with an operator that does not exist", in(first, "up", "--detach", "/no/such"), 1,
		"stop it first: testkit down")
	check(t, "kubeconfig of another project", in(second, "kubeconfig"), 1, "nothing is running")
	check(t, "down in another project", in(second, "down"), 0,
		"nothing is running in this project; testkit down --all stops the clusters of other projects: 1")
	check(t, "kubeconfig", in(first, "kubeconfig"), 0)
	check(t, "down of all projects", in(second, "down", "--all"), 0, "stopped")
	if got := in(first, "down"); !strings.Contains(got.err+got.out, "nothing is running") {
		t.Errorf("after all were stopped, down says %q %q", got.out, got.err)
	}
	w.nothingLeft()
}

// A cluster that ends when no command waits for it leaves the reason to the next command.
func TestFailureOfDetachedCluster(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	check(t, "up", w.run("up", "--bare", "--detach"), 0, "To stop it: testkit down")
	ids := w.processes()
	killed := false
	for _, id := range ids {
		if name, err := process.Command(id.PID); err == nil && strings.Contains(name, "etcd") {
			killed = true
			if err := syscall.Kill(id.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !killed {
		t.Fatal("there is no etcd")
	}
	allEnded(t, ids)
	check(t, "kubeconfig", w.run("kubeconfig"), 1, "nothing is running: it ended at ", "etcd", "\nstart it with testkit up\n")
	check(t, "down", w.run("down"), 0, "nothing is running: it ended at ", "etcd")
	check(t, "down again", w.run("down"), 0)
	w.nothingLeft()
}
