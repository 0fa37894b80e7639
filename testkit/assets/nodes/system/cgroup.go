//go:build linux

package system

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupRoot is the usual mount point.
const cgroupRoot = "/sys/fs/cgroup"

// Cgroups are the hierarchies of control groups of this machine: one folder for each in version 1, and one in all in version
// 2.
type Cgroups struct {
	v2     bool
	v1     []string          // names of the folders
	links  map[string]string // names of single controllers to folders with several
	prefix string            // below each hierarchy
}

// FindCgroups returns the control groups of this machine, for a group of this name below the root.
func FindCgroups(name string) (Cgroups, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(cgroupRoot, &fs); err != nil {
		return Cgroups{}, fmt.Errorf("finding the control groups: %w", err)
	}
	if fs.Type == unix.CGROUP2_SUPER_MAGIC {
		return Cgroups{v2: true, prefix: name}, nil
	}
	c := Cgroups{prefix: name, links: map[string]string{}}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return Cgroups{}, fmt.Errorf("finding the control groups: %w", err)
	}
	for _, entry := range entries {
		if target, err := os.Readlink(filepath.Join(cgroupRoot, entry.Name())); err == nil {
			c.links[entry.Name()] = target
			continue
		}
		err := unix.Statfs(filepath.Join(cgroupRoot, entry.Name()), &fs)
		if err == nil && entry.IsDir() && fs.Type == unix.CGROUP_SUPER_MAGIC {
			c.v1 = append(c.v1, entry.Name())
		}
	}
	if len(c.v1) == 0 {
		return Cgroups{}, fmt.Errorf("finding the control groups: nothing is mounted below %s", cgroupRoot)
	}
	return c, nil
}

// dirs returns the folder of the group in each hierarchy.
func (c Cgroups) dirs() []string {
	if c.v2 {
		return []string{filepath.Join(cgroupRoot, c.prefix)}
	}
	dirs := make([]string, len(c.v1))
	for i, name := range c.v1 {
		dirs[i] = filepath.Join(cgroupRoot, name, c.prefix)
	}
	return dirs
}

// Join makes the group and moves this process into it.
func (c Cgroups) Join() error {
	for _, dir := range c.dirs() {
		if err := join(dir); err != nil {
			return fmt.Errorf("joining a control group: %w", err)
		}
	}
	return nil
}

func join(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := inheritCpuset(dir); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o600)
}

// inheritCpuset copies the processors and memory nodes of the parent groups: without them, a group of version 1 takes no
// process.
func inheritCpuset(dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(data)) != "" {
			continue // another controller, or it has them
		}
		parent := filepath.Dir(dir)
		if err := inheritCpuset(parent); err != nil {
			return err
		}
		if data, err = os.ReadFile(filepath.Join(parent, name)); err != nil {
			continue // version 2: empty means all
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return fmt.Errorf("setting %s: %w", file, err)
		}
	}
	return nil
}

// Mount mounts the hierarchies at their usual places in a new /sys. In a control group namespace, the group of this process
// is their root.
func (c Cgroups) Mount() error {
	if c.v2 {
		return MountAll(Mount{Source: "cgroup2", Target: cgroupRoot, Type: "cgroup2"})
	}
	mounts := []Mount{Tmpfs(cgroupRoot)}
	for _, name := range c.v1 {
		data := name
		if name == "systemd" {
			data = "none,name=systemd"
		}
		mounts = append(mounts, Mount{
			Source: "cgroup", Target: filepath.Join(cgroupRoot, name), Type: "cgroup", Data: data,
		})
	}
	if err := MountAll(mounts...); err != nil {
		return err
	}
	for name, target := range c.links {
		if err := os.Symlink(target, filepath.Join(cgroupRoot, name)); err != nil {
			return fmt.Errorf("linking a control group: %w", err)
		}
	}
	return nil
}

// Remove removes the group with all below it. No process may be in them.
func (c Cgroups) Remove() error {
	var errs []error
	for _, dir := range c.dirs() {
		errs = append(errs, removeCgroup(dir))
	}
	return errors.Join(errs...)
}

// Hold makes the group and locks it, so that RemoveUnusedCgroups leaves it and all groups below it, with and without
// processes. The end of this process releases it, too.
func (c Cgroups) Hold() (release func(), err error) {
	var held []*os.File
	release = func() {
		for _, f := range held {
			_ = f.Close()
		}
	}
	for _, dir := range c.dirs() {
		f, err := hold(dir)
		if err != nil {
			release()
			return nil, fmt.Errorf("locking a control group: %w", err)
		}
		held = append(held, f)
	}
	return release, nil
}

// hold makes and locks a folder. If the folder is removed in between, hold makes it again.
func hold(dir string) (*os.File, error) {
	for {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		f, err := lock(dir, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		locked, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if now, err := os.Stat(dir); err == nil && os.SameFile(locked, now) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// lock opens a folder and locks it.
func lock(dir string, flags int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|flags); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// RemoveUnusedCgroups removes the groups below the root whose names begin with a prefix, unless a process holds or uses
// them. Frozen processes that were killed end first.
func RemoveUnusedCgroups(prefix string) error {
	root, err := FindCgroups("")
	if err != nil {
		return err
	}
	// In version 1, a killed process remains in all groups until its freezer group continues it.
	if err := forUnused(root.freezer(), prefix, thawKilled); err != nil {
		return err
	}
	for _, dir := range root.dirs() {
		err := forUnused(dir, prefix, func(group string) error {
			_ = removeCgroup(group) // it is busy if it has a process
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forUnused calls f for each group in a folder whose name begins with a prefix and that no process holds, and locks it
// meanwhile.
func forUnused(dir, prefix string, f func(group string) error) error {
	groups, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil {
		return fmt.Errorf("finding control groups: %w", err)
	}
	for _, group := range groups {
		held, err := lock(group, unix.LOCK_NB)
		if err != nil {
			continue // another process holds it, or has removed it
		}
		if err := errors.Join(f(group), held.Close()); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroup removes a folder and those below it. Files in control groups cannot be removed.
func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing a control group: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		if entry.IsDir() {
			errs = append(errs, removeCgroup(filepath.Join(dir, entry.Name())))
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, fmt.Errorf("removing a control group: %w", err))
	}
	return errors.Join(errs...)
}
