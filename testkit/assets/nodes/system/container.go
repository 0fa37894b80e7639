//go:build linux

package system

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Below returns the first group below this one whose folder has a name.
func (c Cgroups) Below(name string) (group Cgroups, found bool) {
	root := c.dirs()[0]
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || entry.Name() != name {
			return nil //nolint:nilerr // groups may end meanwhile
		}
		group = c
		group.prefix = filepath.Join(c.prefix, strings.TrimPrefix(path, root))
		found = true
		return fs.SkipAll
	})
	return group, found
}

// Kill kills all processes of the group.
func (c Cgroups) Kill() error {
	pids, err := c.processes()
	if err != nil {
		return err
	}
	var errs []error
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("killing a process of a control group: %w", err))
		}
	}
	return errors.Join(errs...)
}

// processes returns the PIDs of the processes of the group.
func (c Cgroups) processes() ([]int, error) {
	data, err := os.ReadFile(filepath.Join(c.dirs()[0], "cgroup.procs"))
	if err != nil {
		return nil, fmt.Errorf("reading the processes of a control group: %w", err)
	}
	var pids []int
	for line := range strings.Lines(string(data)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("reading the processes of a control group: %w", err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Freeze stops all processes of the group, or continues them.
func (c Cgroups) Freeze(frozen bool) error {
	file, state := filepath.Join(c.freezer(), "freezer.state"), thawedState
	if frozen {
		state = frozenState
	}
	if c.v2 {
		file, state = filepath.Join(cgroupRoot, c.prefix, "cgroup.freeze"), "0"
		if frozen {
			state = "1"
		}
	}
	if err := os.WriteFile(file, []byte(state), 0o600); err != nil {
		return fmt.Errorf("stopping or continuing a control group: %w", err)
	}
	return nil
}

// Thaw continues the processes of the group and of all groups below it. In version 1, a frozen process that is killed does
// not end before, nor does its PID namespace.
func (c Cgroups) Thaw() error {
	_, err := thaw(c.freezer())
	return err
}

// freezer returns the folder of the group that has the state of its processes, which does not exist in version 2.
func (c Cgroups) freezer() string { return filepath.Join(cgroupRoot, "freezer", c.prefix) }

const frozenState, thawedState = "FROZEN", "THAWED"

// thaw continues the processes in a folder and below it, and reports whether some were frozen.
func thaw(dir string) (found bool, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		file := filepath.Join(path, "freezer.state")
		if err != nil || !entry.IsDir() {
			return nil //nolint:nilerr // groups may end meanwhile
		}
		state, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(state)) == thawedState {
			return nil //nolint:nilerr // groups may end meanwhile
		}
		found = true
		err = os.WriteFile(file, []byte(thawedState), 0o600)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) { // it has ended
			return fmt.Errorf("continuing a control group: %w", err)
		}
		return nil
	})
	return found, err
}

// thawKilled continues the processes in a folder and below it, and waits for the end of those that were killed. It gives up
// after 5 s, because others may go on.
func thawKilled(group string) error {
	found, err := thaw(group)
	for end := time.Now().Add(5 * time.Second); found && hasProcess(group) && time.Now().Before(end); {
		<-time.After(10 * time.Millisecond)
	}
	return err
}

// hasProcess reports whether there is a process in a folder or below it.
func hasProcess(dir string) (found bool) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "cgroup.procs" {
			pids, _ := os.ReadFile(path) //nolint:gosec // a control group has no links
			found = found || len(pids) > 0
		}
		return nil
	})
	return found
}
