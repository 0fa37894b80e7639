package cli_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestExec(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		args   []string
		code   int
		want   string
	}{
		"Success": {"the command's output is its own", []string{"--", "echo", "hello"}, 0, "hello"},
		"Code":    {"exit codes are passed through", []string{"--", "sh", "-c", "exit 7"}, 7, ""},
		"Signal":  {"as a shell does", []string{"sh", "-c", "kill -TERM $$"}, 128 + int(syscall.SIGTERM), ""},
		"Environment": {
			"the command finds the cluster",
			[]string{"--", "sh", "-c", `cat "$KUBECONFIG"; ls "$KUBEBUILDER_ASSETS"`},
			0,
			"server: https://127.0.0.1:",
		},
		"Unknown": {"no control plane is started for it", []string{"--", "no-such-command"}, 127, "executable file not found"},
		"Nested": {
			"both share one", []string{
				"--", os.Args[0], "exec", "--", "sh", "-c", `ls -d "$XDG_RUNTIME_DIR"/testkit-*/*.lock | wc -l`,
			}, 0, "1",
		},
	}
	w := newWorkspace(t)
	w.keepControlPlane()
	for name, tt := range tests {
		got := w.run(append([]string{"exec"}, tt.args...)...)
		check(t, name+", because "+tt.reason, got, tt.code, tt.want)
	}
}

func TestExecLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	check(t, "a command that fails", w.run("exec", "--", "sh", "-c", "exit 7"), 7, "")
	w.nothingLeft()
}

// TestExecForwardsSignals checks that signals that do not come from a key are forwarded to the child.
func TestExecForwardsSignals(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	script := `trap 'echo got it; exit 3' TERM; echo up; while :; do sleep 0.01; done`
	lines := newWatcher(t, w.command("exec", "--", "sh", "-c", script))
	lines.wait("up")
	ids := w.processes()
	if err := lines.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := lines.end(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	if !strings.Contains(lines.text(), "got it") {
		t.Errorf("the command did not receive the signal:\n%s", lines.text())
	}
	allEnded(t, ids)
	w.nothingLeft()
}

// TestKilledExec checks that exec, even if killed, leaves no processes.
func TestKilledExec(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	cmd := w.command("exec", "--", "sh", "-c", "echo up; exec cat")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = input.Close() }) // ends cat, which the killed command has left
	lines := newWatcher(t, cmd)
	lines.wait("up")
	ids := w.processes()
	lines.kill()
	allEnded(t, ids)
	w.nothingLeft()
}
