package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/homeostat-dev/homeostat/testkit/cmd/testkit/internal/cli"
	"github.com/homeostat-dev/homeostat/testkit/internal/environment"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
	"github.com/homeostat-dev/homeostat/testkit/internal/socketdir"
)

// asCommand makes this test binary the testkit command.
const asCommand = "TESTKIT_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	environment.RunHelperProcess()
	if os.Getenv(asCommand) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

const widget = "../../../../sandbox/testdata/widget"

// timeout far exceeds the duration of any action on an idle machine.
const timeout = 5 * time.Minute

// A workspace is a folder that isolates the commands of one test from other tests.
type workspace struct {
	t   *testing.T
	dir string
	env []string
}

func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	dir, err := os.MkdirTemp("", "tk") //nolint:usetesting // the paths of sockets have to be short
	if err != nil {
		t.Fatal(err)
	}
	w := &workspace{t: t, dir: dir, env: append(os.Environ(),
		asCommand+"=1", "XDG_RUNTIME_DIR="+dir, "TMPDIR="+dir, "KUBECONFIG=", "MAKELEVEL=", "GORACE=atexit_sleep_ms=0")}
	t.Cleanup(func() {
		w.run("down")
		w.nothingLeft()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *workspace) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = w.env
	return cmd
}

// A result is the output and the exit code of a command.
type result struct {
	code     int
	out, err string
}

func (w *workspace) run(args ...string) result {
	w.t.Helper()
	return w.wait(w.command(args...))
}

func (w *workspace) wait(cmd *exec.Cmd) result {
	w.t.Helper()
	var out, stderr bytes.Buffer
	cmd.Stdout = &out
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	return result{code: cmd.ProcessState.ExitCode(), out: out.String(), err: stderr.String()}
}

// keepControlPlane keeps a control plane running until the test ends, so that the commands of the test share it.
// Starting it takes most of the time of a command.
func (w *workspace) keepControlPlane() {
	w.t.Helper()
	cmd := w.command("exec", "--", "sh", "-c", "echo up; exec cat")
	input, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	lines := newWatcher(w.t, cmd)
	lines.wait("up")
	w.t.Cleanup(func() {
		_ = input.Close()
		if code := lines.end(); code != 0 {
			w.t.Errorf("exec ended with code %d:\n%s", code, lines.text())
		}
	})
}

// nothingLeft checks that there is neither a socket nor data.
func (w *workspace) nothingLeft() {
	w.t.Helper()
	left, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, entry := range left {
		w.t.Errorf("%s is left", entry.Name())
	}
}

// processes returns the processes of this workspace.
func (w *workspace) processes() []process.ID {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "*", "*", "state.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	var ids []process.ID
	for _, file := range files {
		var s socketdir.State
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &s)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		ids = append(append(ids, s.Owner), s.Children...)
	}
	return ids
}

func allEnded(t *testing.T, ids []process.ID) {
	t.Helper()
	if len(ids) == 0 {
		t.Error("nothing ran")
	}
	for _, id := range ids {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		if err := id.WaitEnd(ctx); err != nil {
			name, _ := process.Command(id.PID)
			t.Errorf("%s still runs: %v", name, err)
		}
		cancel()
	}
}

// check compares a command's result with the expected one.
func check(t *testing.T, what string, got result, code int, wants ...string) {
	t.Helper()
	if got.code != code {
		t.Errorf("%s: exit code %d, want %d\n%s%s", what, got.code, code, got.out, got.err)
	}
	for _, want := range wants {
		if !strings.Contains(got.out+got.err, want) {
			t.Errorf("%s: the output lacks %q\n%s%s", what, want, got.out, got.err)
		}
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	tests := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"Unknown": {"a typing error", []string{"upp"}, `testkit: there is no command "upp"; see testkit help`},
		"Flag": {
			"a typing error",
			[]string{"up", "--node", "3"},
			"testkit: up: flag provided but not defined: -node; see testkit help",
		},
		"Number":    {"not a number", []string{"up", "--nodes", "x"}, `testkit: up: invalid value "x" for flag -nodes`},
		"Negative":  {"not possible", []string{"up", "--nodes=-1"}, "testkit: up: --nodes=-1: there cannot be fewer"},
		"NoNode":    {"pods would not run", []string{"up", "--real", "--nodes=0"}, "testkit: up: --real --nodes=0: "},
		"Folder":    {"not an operator", []string{"up", "/no/such"}, "testkit: operator /no/such: there is no such folder"},
		"Twice":     {"they would overwrite each other", []string{"up", widget, widget}, "have the same name"},
		"NoCommand": {"nothing to run", []string{"exec", "--workloads"}, "testkit: exec: which command?"},
		"Images": {
			"a typing error",
			[]string{"up", "--real", "--images", "/no/such"},
			"testkit: up: --images /no/such: there is no folder with this name that has files *.tar",
		},
		"Surplus": {
			"down stops all there is",
			[]string{"down", "x"},
			`testkit: down: it takes no arguments, but there is "x"`,
		},
	}
	for name, tt := range tests {
		got := w.run(tt.args...)
		check(t, name+", because "+tt.reason, got, 2, tt.want)
		if lines := strings.Count(got.err, "\n"); lines != 1 || got.out != "" {
			t.Errorf("%s: more than one sentence: %q %q", name, got.out, got.err)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	const up = "testkit up [--real [--images DIR ...]] [--nodes N] [--detach] [--bare | --context NAME] [DIR ...]"
	for _, args := range [][]string{{"help"}, {"--help"}, {"up", "--help"}, {"exec", "-h"}} {
		check(t, fmt.Sprint(args), w.run(args...), 0, up)
	}
	check(t, "explore", w.run("explore", "--help"), 0, "--budget 10m ", "namespaces: [team-a]")
	check(t, "no command", w.run(), 2, up)
}

// TestControllerRuntimeHasALogger checks that a logger is set. Otherwise controller-runtime prints a stack trace if
// half a minute passes before it is first used, as in the first run, which builds Kubernetes.
func TestControllerRuntimeHasALogger(t *testing.T) {
	t.Parallel()
	if code := cli.Main([]string{"help"}, io.Discard, io.Discard); code != 0 {
		t.Errorf("help ends with code %d", code)
	}
	sink := log.Log.WithName("test").GetSink()
	if _, ok := sink.(log.NullLogSink); !ok {
		t.Errorf("the log goes to %T, which still waits for a logger", sink)
	}
}

func TestNoSandbox(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	check(t, "down", w.run("down"), 0, "nothing is running")
	check(t, "kubeconfig", w.run("kubeconfig"), 1, "testkit: nothing is running; start it with testkit up\n")
	w.env = append(w.env, "MAKELEVEL=1")
	check(t, "make kubeconfig", w.run("kubeconfig"), 1, "testkit: nothing is running; start it with make up\n")
}

func TestAssets(t *testing.T) {
	t.Parallel()
	got := newWorkspace(t).run("assets")
	check(t, "assets", got, 0)
	for _, name := range []string{"etcd", "kube-apiserver", "kubectl", "kwok"} {
		if _, err := os.Stat(filepath.Join(strings.TrimSpace(got.out), name)); err != nil {
			t.Errorf("standard output %q is not a folder with %s", got.out, name)
		}
	}
}

// A machine without containerd cannot run real nodes, nor can a user other than root.
func TestUnsupportedRealNodes(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.env = append(w.env, "PATH="+t.TempDir())
	for _, args := range [][]string{{"assets", "--real"}, {"up", "--real", widget}} {
		check(t, args[0], w.run(args...), 2, "testkit: "+args[0]+": --real: real nodes need ")
	}
}

func TestDetached(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	began := time.Now()
	up := w.run("up", "--detach", widget)
	t.Logf("up --detach took %v", time.Since(began))
	check(t, "up", up, 0, "operator widget runs as system:serviceaccount:widget-system:widget-operator",
		"export KUBECONFIG=", "export PATH=", "kubectl get widgets --all-namespaces", "To stop it: testkit down")
	kubeconfig := strings.TrimSpace(w.run("kubeconfig").out)
	if !strings.Contains(up.out, "export KUBECONFIG="+kubeconfig+"\n") {
		t.Errorf("kubeconfig says %q, up said %s", kubeconfig, up.out)
	}
	programs := strings.TrimSpace(w.run("assets").out)
	kubectl := exec.Command(filepath.Join(programs, "kubectl"), "get", "widgets", "sample", "--namespace=default")
	kubectl.Env = []string{"KUBECONFIG=" + kubeconfig, "HOME=" + w.dir + "/home"}
	check(t, "kubectl", w.wait(kubectl), 0, "sample")
	again := exec.Command(filepath.Join(programs, "kubectl"), "apply", "-f", widget+"/config/samples")
	again.Env = kubectl.Env
	if got := w.wait(again); got.out != "widget.testkit.homeostat.dev/sample unchanged\n" || got.err != "" {
		t.Errorf("a sample is applied again: %q, and a warning: %q", got.out, got.err)
	}
	_ = os.RemoveAll(w.dir + "/home") // kubectl's cache

	check(t, "up again", w.run("up", "--detach", widget), 0, "it is already running", "export KUBECONFIG="+kubeconfig)
	check(t, "up of others", w.run("up", "--detach"), 1,
		"a cluster is already running, with other operators (widget); stop it first: testkit down")
	ids := w.processes()
	check(t, "down", w.run("down"), 0, "stopped")
	for _, id := range ids {
		if id.Alive() {
			t.Errorf("after down pid %d still runs", id.PID)
		}
	}
	allEnded(t, ids)
}

func TestForeground(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	cmd := w.command("up", widget)
	lines := newWatcher(t, cmd)
	lines.wait("export KUBECONFIG=")
	lines.wait("Widget default/sample SIZE=3 READY=True CONDITIONS=Ready")
	ids := w.processes()

	second := w.command("up", widget)
	view := newWatcher(t, second)
	view.wait("it is already running; Ctrl-C only ends this view, testkit down stops it")
	view.wait("Widget default/sample SIZE=3")
	view.interrupt()
	if code := view.end(); code != 0 {
		t.Errorf("the second view ended with code %d", code)
	}

	lines.interrupt()
	if code := lines.end(); code != 0 {
		t.Errorf("Ctrl-C ended with code %d\n%s", code, lines.text())
	}
	lines.wait("everything is stopped and gone")
	for _, id := range ids {
		if id.Alive() {
			t.Errorf("after Ctrl-C pid %d still runs", id.PID)
		}
	}
	allEnded(t, ids)
	w.nothingLeft()
}

func TestInterruptedWhileStarting(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	lines := newWatcher(t, w.command("up", widget))
	lines.wait("starting etcd and kube-apiserver")
	ids := w.processes()
	lines.interrupt()
	if code := lines.end(); code != 0 {
		t.Errorf("Ctrl-C ended with code %d\n%s", code, lines.text())
	}
	allEnded(t, ids)
	w.nothingLeft()
}

// TestInterruptedWhileBuilding checks that Ctrl-C during the build of Kubernetes is not reported as a build failure,
// and that finished parts of the build are kept.
func TestInterruptedWhileBuilding(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "go"), []byte("#!/bin/sh\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"assets"}, {"up"}, {"up", "--detach"}, {"exec", "true"}} {
		cmd := w.command(args...)
		cmd.Env = append(cmd.Env, "TESTKIT_ASSETS=build", "XDG_CACHE_HOME="+t.TempDir(), "PATH="+tools+":"+os.Getenv("PATH"))
		lines := newWatcher(t, cmd)
		lines.wait("resolving modules")
		lines.interrupt()
		if code := lines.end(); code != 130 {
			t.Errorf("%v: Ctrl-C ended with code %d", args, code)
		}
		if said := lines.text(); !strings.HasSuffix(said, "] interrupted; run it again to go on where it stopped") {
			t.Errorf("%v says\n%s", args, said)
		}
	}
}

// TestKilled checks that the next sandbox cleans up after a killed one.
func TestKilled(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	lines := newWatcher(t, w.command("up", widget))
	lines.wait("export KUBECONFIG=")
	ids := w.processes()
	lines.kill()
	allEnded(t, ids)
	check(t, "down", w.run("down"), 0, "nothing is running")
	check(t, "up", w.run("up", "--detach", widget), 0, "export KUBECONFIG=")
}
