//go:build linux

package system

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// spareMemory is what the processes of a group may still allocate when their memory limit is lowered.
	spareMemory = 4 << 20
	// exhaustTimeout is more than the kernel needs to kill the processes of a group.
	exhaustTimeout = 30 * time.Second
)

// ExhaustMemory lets the kernel kill all processes of the group, because they exceed the memory limit of the group: it
// lowers the limit, and fills memory that counts for the group. dir is a folder that does not exist yet.
func (c Cgroups) ExhaustMemory(i *Init, dir string) (err error) {
	group, usage, limit := filepath.Join(cgroupRoot, "memory", c.prefix), "memory.usage_in_bytes", "memory.limit_in_bytes"
	if c.v2 {
		group, usage, limit = filepath.Join(cgroupRoot, c.prefix), "memory.current", "memory.max"
	}
	if err := MountAll(Tmpfs(dir)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH), os.Remove(dir)) }()
	for end := time.Now().Add(exhaustTimeout); time.Now().Before(end); {
		pids, err := c.processes()
		if errors.Is(err, os.ErrNotExist) || err == nil && len(pids) == 0 {
			return nil
		}
		if err == nil {
			err = preferVictims(pids)
		}
		if err == nil {
			err = lowerLimit(filepath.Join(group, usage), filepath.Join(group, limit))
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) { // the group ends with its last process
			return fmt.Errorf("exhausting the memory of a control group: %w", err)
		}
		// The kernel kills dd last, or dd ends. It has little memory of its own. What it writes counts for the group.
		const fill = `echo $$ > "$1" && exec dd if=/dev/zero of="$2" bs=64k count=1024`
		_ = i.Run(os.DevNull, "sh", "-c", fill, "sh", filepath.Join(group, "cgroup.procs"), filepath.Join(dir, "zeros"))
	}
	return errors.New("exhausting the memory of a control group: the kernel has not killed all of its processes")
}

// preferVictims lets the kernel kill these processes before any other one of their group.
func preferVictims(pids []int) error {
	const first = "1000"
	for _, pid := range pids {
		err := os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte(first), 0o600)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// lowerLimit lowers the memory limit of a group to little more than it uses.
func lowerLimit(usage, limit string) error {
	used, err := os.ReadFile(usage)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(used)), 10, 64)
	if err != nil {
		return err
	}
	return os.WriteFile(limit, []byte(strconv.FormatInt(n+spareMemory, 10)), 0o600)
}
