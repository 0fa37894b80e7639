package function

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// shell returns a connection to processes that run a script.
func shell(t *testing.T, script string, change func(*Process)) Connection {
	t.Helper()
	p := &Process{Command: []string{"/bin/sh", "-c", script}, Timeout: 20 * time.Second, MaxAnswer: 1000}
	if change != nil {
		change(p)
	}
	c := p.Connect(logr.Discard())
	t.Cleanup(c.Close)
	return c
}

func callError(t *testing.T, err error, reason, message string) {
	t.Helper()
	failure, ok := errors.AsType[*CallError](err)
	if !ok || failure.Reason != reason || !strings.Contains(failure.Message, message) {
		t.Errorf("the error is %v, want %s: %s", err, reason, message)
	}
}

func TestProcess(t *testing.T) {
	t.Parallel()
	c := shell(t, `while read -r line; do echo "$$ $line"; done`, func(p *Process) { p.Size = 1 })
	first, err := c.Call(t.Context(), []byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Call(t.Context(), []byte("b"))
	if err != nil {
		t.Fatal(err)
	}
	pid, isFirst := strings.CutSuffix(string(first), " a")
	if !isFirst || string(second) != pid+" b" {
		t.Errorf("the answers are %q and %q", first, second)
	}
	c.Close()
	if n, err := strconv.Atoi(pid); err != nil || syscall.Kill(n, 0) == nil {
		t.Errorf("process %s runs after Close: %v", pid, err)
	}
	if _, err := c.Call(t.Context(), []byte("c")); !errors.Is(err, ErrClosed) {
		t.Errorf("the error is %v", err)
	}
}

// Calls that are made at once have a process each, up to the limit.
func TestProcessesAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// An answer waits until both processes have a request.
	c := shell(t, `cd "`+dir+`"; while read -r line; do : > "$line"; while [ ! -e a ] || [ ! -e b ]; do sleep 0.01; done; `+
		`echo $$; done`, nil)
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		wg.Go(func() {
			if _, err := c.Call(t.Context(), []byte(name)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestProcessFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, reason, message string
	}{
		"it ends":           {"read -r line; echo why >&2; exit 7", ReasonCrashed, "(exit status 7): why"},
		"it ends at once":   {"exit 0", ReasonCrashed, "(exit status 0)"},
		"a signal":          {"read -r line; kill -9 $$", ReasonCrashed, "signal: killed"},
		"it closes stdin":   {"exec <&-; sleep 100", ReasonCrashed, "ended in the call"},
		"no answer":         {"sleep 100", ReasonTimeout, "did not answer in time"},
		"a long answer":     {"read -r line; printf %2000s; sleep 100", ReasonInvalidAnswer, "larger than 1000 bytes"},
		"it reads nothing":  {"sleep 100 & sleep 100", ReasonTimeout, "did not answer in time"},
		"it does not exist": {"", ReasonUnavailable, "cannot be started"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection := shell(t, c.script, func(p *Process) {
				if c.reason == ReasonTimeout {
					p.Timeout = time.Second
					p.StartTimeout = time.Second
				}
				if c.script == "" {
					p.Command = []string{"/no/such/program"}
				}
			})
			_, err := connection.Call(t.Context(), []byte(strings.Repeat("x", 1<<20))) // more than a pipe holds
			callError(t, err, c.reason, c.message)
		})
	}
}

// Descendants of a process that does not answer are killed with it.
func TestDescendants(t *testing.T) {
	t.Parallel()
	pid := 0
	for timeout := time.Second; pid == 0; timeout *= 2 { // the process may end before it has a descendant
		if timeout > time.Minute {
			t.Fatal("the process does not start")
		}
		file := filepath.Join(t.TempDir(), "pid")
		c := shell(t, `sleep 100 & echo $! > "`+file+`"; wait`, func(p *Process) {
			p.Timeout = timeout
			p.StartTimeout = timeout
		})
		_, err := c.Call(t.Context(), []byte("a"))
		callError(t, err, ReasonTimeout, "")
		data, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(data)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for isRunning(pid) {
		select {
		case <-ctx.Done():
			t.Fatal("the descendant runs")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// isRunning reports whether a process runs. One that has ended and that its parent has not read is a zombie.
func isRunning(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(data), ") Z ")
}

// Processes that fail one after the other are not started for each call.
func TestStartsAreDelayed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "starts")
	c := shell(t, `echo x >> "`+file+`"; exit 1`, nil)
	for range 50 {
		_, err := c.Call(t.Context(), []byte("a"))
		callError(t, err, ReasonCrashed, "exit status 1")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if starts := strings.Count(string(data), "x"); starts < 2 || starts > 15 {
		t.Errorf("50 calls started %d processes", starts)
	}
}

// A call ends with its context.
func TestCanceledCall(t *testing.T) {
	t.Parallel()
	c := shell(t, "sleep 100", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, []byte("a")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
}
