package environment_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

type sleeper struct {
	id  process.ID
	cmd *exec.Cmd
}

func startSleeper(t *testing.T) sleeper {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	id, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return sleeper{id: id, cmd: cmd}
}

// ends waits until the sleeper has been killed.
func (s sleeper) ends(t *testing.T, w *world) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.cmd.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(timeout):
		left, _ := filepath.Glob(filepath.Join(w.root, "*", "*"))
		t.Fatalf("pid %d still runs; in the folder are %q", s.id.PID, left)
	}
}

// reused returns the identity of an earlier process with the same pid.
func reused(id process.ID) process.ID {
	id.Start = "1"
	return id
}

// addComponents adds the processes to the recorded children of the only environment.
func addComponents(t *testing.T, w *world, ids ...process.ID) {
	t.Helper()
	s := w.only()
	s.Children = append(s.Children, ids...)
	data, err := json.Marshal(s.State)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(w.root, "*", "state.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("finding the state: %v, %v", files, err)
	}
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
}
