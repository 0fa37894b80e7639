//go:build linux

package system

import (
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// testCgroups returns groups for a test, which are removed with it.
func testCgroups(t *testing.T) Cgroups {
	t.Helper()
	c, err := FindCgroups("homeostat-test-" + strings.ToLower(rand.Text()[:8]))
	if err == nil {
		err = os.MkdirAll(c.dirs()[0], 0o755)
	}
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EROFS) {
		t.Skipf("control groups need root, and a writable %s: %v", cgroupRoot, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// missing returns the folders of the group that do not exist.
func missing(c Cgroups) []string {
	var dirs []string
	for _, dir := range c.dirs() {
		if _, err := os.Stat(dir); err != nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// A network that starts leaves the groups of another one, also those that have no process yet.
func TestHeldCgroupsStay(t *testing.T) {
	t.Parallel()
	c := testCgroups(t)
	release, err := c.Hold()
	if err != nil {
		t.Fatal(err)
	}
	pod := Cgroups{v2: c.v2, v1: c.v1, prefix: filepath.Join(c.prefix, "pod")}
	for _, dir := range pod.dirs() {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveUnusedCgroups(c.prefix); err != nil {
		t.Error(err)
	}
	if dirs := missing(pod); len(dirs) > 0 {
		t.Errorf("the groups were removed while a process held them: %v", dirs)
	}
	release()
	if err := RemoveUnusedCgroups(c.prefix); err != nil {
		t.Error(err)
	}
	if dirs := missing(c); len(dirs) != len(c.dirs()) {
		t.Errorf("some groups remain that no process holds: of %v only %v were removed", c.dirs(), dirs)
	}
}

// A process that was killed while it was paused ends, and its groups are removed.
func TestPausedProcessesEnd(t *testing.T) {
	t.Parallel()
	c := testCgroups(t)
	pod := Cgroups{v2: c.v2, v1: c.v1, prefix: filepath.Join(c.prefix, "node", "pod")}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	for _, dir := range pod.dirs() {
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = inheritCpuset(dir)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(pod.Freeze(true), cmd.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	if err := RemoveUnusedCgroups(c.prefix); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the process has not ended")
	}
	if dirs := missing(c); len(dirs) != len(c.dirs()) {
		t.Errorf("some groups remain: of %v only %v were removed", c.dirs(), dirs)
	}
}

// Networks start at the same time: each has its groups.
func TestHoldDuringRemoval(t *testing.T) {
	t.Parallel()
	c := testCgroups(t)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := RemoveUnusedCgroups(c.prefix); err != nil {
				t.Error(err)
			}
		}
	})
	for range 200 {
		release, err := c.Hold()
		if err != nil {
			t.Error(err)
			break
		}
		if dirs := missing(c); len(dirs) > 0 {
			t.Errorf("a process holds groups that were removed: %v", dirs)
		}
		release()
	}
	close(done)
	wg.Wait()
}
