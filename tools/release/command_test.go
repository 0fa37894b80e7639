package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// stubborn prints its process id and ignores interrupts.
const stubborn = `package main

import (
	"os"
	"os/signal"
	"strconv"
	"time"
)

func main() {
	signal.Ignore(os.Interrupt)
	_ = os.WriteFile("unfinished", []byte(strconv.Itoa(os.Getpid())), 0o644)
	_ = os.Rename("unfinished", "pid")
	<-time.After(10 * time.Minute)
}
`

// Child processes of the go command end with it.
func TestCanceled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module stubborn\n\ngo 1.26.0\n", "main.go": stubborn} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := command{dir: dir, env: []string{"GOWORK=off"}}.run(ctx, "go", "run", ".")
		done <- err
	}()
	var pid int
	eventually(t, time.Minute, func() bool {
		data, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(string(data))
		return err == nil
	})
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	cancel()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a command that was canceled has no error")
		}
	case <-time.After(time.Minute):
		t.Fatal("a command that was canceled does not return")
	}
	eventually(t, 10*time.Second, func() bool { return syscall.Kill(pid, 0) != nil })
}

// eventually waits for a condition.
func eventually(t *testing.T, limit time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.After(limit)
	for tick := time.Tick(10 * time.Millisecond); !holds(); {
		select {
		case <-deadline:
			t.Fatalf("it does not hold within %s", limit)
		case <-tick:
		}
	}
}
