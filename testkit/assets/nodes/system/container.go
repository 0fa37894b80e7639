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
	file, state := filepath.Join(cgroupRoot, "freezer", c.prefix, "freezer.state"), "THAWED"
	if frozen {
		state = "FROZEN"
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
