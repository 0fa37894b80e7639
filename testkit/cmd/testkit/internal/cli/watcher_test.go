package cli_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// A watcher follows the output of a running command.
type watcher struct {
	t     *testing.T
	cmd   *exec.Cmd
	done  chan struct{} // closed when all output is read
	mu    sync.Mutex
	lines []string
}

func newWatcher(t *testing.T, cmd *exec.Cmd) *watcher {
	t.Helper()
	w := &watcher{t: t, cmd: cmd, done: make(chan struct{})}
	r, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = pipe
	cmd.Stderr = pipe
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = pipe.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = r.Close()
	})
	go func() {
		defer close(w.done)
		for scanner := bufio.NewScanner(r); scanner.Scan(); {
			w.mu.Lock()
			w.lines = append(w.lines, scanner.Text())
			w.mu.Unlock()
		}
	}()
	return w
}

func (w *watcher) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.lines, "\n")
}

// wait returns when the output has this part.
func (w *watcher) wait(part string) {
	w.t.Helper()
	there := func(context.Context) (bool, error) { return strings.Contains(w.text(), part), nil }
	if wait.PollUntilContextTimeout(w.t.Context(), 5*time.Millisecond, timeout, true, there) != nil {
		w.t.Fatalf("no %q in\n%s", part, w.text())
	}
}

// interrupt sends the signal of Ctrl-C.
func (w *watcher) interrupt() {
	w.t.Helper()
	if err := w.cmd.Process.Signal(syscall.SIGINT); err != nil {
		w.t.Error(err)
	}
}

func (w *watcher) kill() {
	w.t.Helper()
	if err := w.cmd.Process.Kill(); err != nil {
		w.t.Error(err)
	}
	_ = w.cmd.Wait()
}

// end waits for the command and returns its exit code.
func (w *watcher) end() int {
	w.t.Helper()
	_ = w.cmd.Wait()
	<-w.done
	return w.cmd.ProcessState.ExitCode()
}
