package process_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

func start(t *testing.T, script string) *process.Process {
	t.Helper()
	p, err := process.Start("script", exec.Command("sh", "-c", script), filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

func TestKillEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	p := start(t, "sleep 600 & echo $!; wait")
	var child int
	err := p.WaitReady(t.Context(), func(context.Context) (err error) {
		child, err = strconv.Atoi(strings.TrimSpace(p.Tail()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := process.Identify(child)
	if err != nil {
		t.Fatal(err)
	}
	id := p.ID()
	if !id.Alive() || !grandchild.Alive() {
		t.Fatal("nothing to kill")
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if id.Alive() {
		t.Error("the process still runs")
	}
	limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := grandchild.WaitEnd(limited); err != nil {
		t.Errorf("the process's own child still runs: %v", err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("killing it again: %v", err)
	}
}

func TestWaitReadyErrors(t *testing.T) {
	t.Parallel()
	never := func(context.Context) error { return errors.New("not yet") }
	t.Run("Ended", func(t *testing.T) {
		t.Parallel()
		err := start(t, "echo this is why >&2; exit 7").WaitReady(t.Context(), never)
		for _, want := range []string{"script ended before it was ready", "exit status 7", "this is why"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v lacks %q", err, want)
			}
		}
	})
	t.Run("Late", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := start(t, "sleep 600").WaitReady(ctx, never)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not yet") {
			t.Errorf("%v lacks the last result", err)
		}
	})
	t.Run("EndedCall", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		err := start(t, "sleep 600").WaitReady(ctx, func(ctx context.Context) error {
			if calls++; calls == 1 {
				return never(ctx)
			}
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "not yet") {
			t.Errorf("%v lacks the last result before the end of the context", err)
		}
	})
}

// ready may be talking to another process that does not respond: its context ends with the process that is started.
func TestWaitReadyEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "exit 3")
	err := p.WaitReady(t.Context(), func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Error("the context outlives the process")
		}
		return errors.New("no answer")
	})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
}

func TestStartMissingProgram(t *testing.T) {
	t.Parallel()
	_, err := process.Start("ghost", exec.Command("/no/such/program"), filepath.Join(t.TempDir(), "log"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	p := start(t, "sleep 600")
	id := p.ID()
	if again, err := process.Identify(id.PID); err != nil || again != id {
		t.Errorf("%v and %v are the same process: %v", id, again, err)
	}
	if name, err := process.Command(id.PID); err != nil || name != "sh" && name != "sleep" {
		t.Errorf("its command is %q: %v", name, err)
	}
	another := process.ID{PID: id.PID, Start: "1"} // an earlier process with this pid
	if another.Alive() {
		t.Error("another process of the same pid is alive")
	}
	if err := another.KillGroup(time.Second); err != nil || !id.Alive() {
		t.Errorf("killing the earlier process killed this one: %v", err)
	}
	if err := id.KillGroup(10 * time.Second); err != nil {
		t.Error(err)
	}
	if id.Alive() {
		t.Error("the killed process is alive")
	}
	<-p.Done()
	if _, err := process.Identify(id.PID); !errors.Is(err, process.ErrNoProcess) {
		t.Errorf("identifying what has ended: %v", err)
	}
	if (process.ID{}).Alive() {
		t.Error("nothing is alive")
	}
}

// A process that has ended but has not been reaped is not alive.
func TestZombie(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	gone := func(context.Context) (bool, error) {
		_, err := process.Identify(cmd.Process.Pid)
		return errors.Is(err, process.ErrNoProcess), nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, gone); err != nil {
		t.Fatal("the zombie counts as alive")
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(strings.Repeat("old\n", 100)+"new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(process.Tail(file), "\n")
	if len(lines) != 20 || lines[19] != "  new" {
		t.Errorf("%q", lines)
	}
	if got := process.Tail(file + ".not"); !strings.Contains(got, "no log") {
		t.Errorf("%q", got)
	}
}
