//go:build linux

package system

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// SeparateMounts makes the mounts of this process's mount namespace independent of those of its parent. Mounts in it are
// shared with the containers that ask for that.
func SeparateMounts() error {
	for _, flag := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|flag, ""); err != nil {
			return fmt.Errorf("separating the mounts: %w", err)
		}
	}
	return nil
}

// A Mount is an argument of mount(2).
type Mount struct {
	Source, Target, Type, Data string
	Flags                      uintptr
}

// MountAll makes mounts, in order. It makes missing folders.
func MountAll(mounts ...Mount) error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.Target, 0o755); err != nil {
			return fmt.Errorf("making a mount point: %w", err)
		}
		if err := unix.Mount(m.Source, m.Target, m.Type, m.Flags, m.Data); err != nil {
			return fmt.Errorf("mounting %s at %s: %w", m.Source, m.Target, err)
		}
	}
	return nil
}

// Bind mounts a folder at another one.
func Bind(source, target string) Mount {
	return Mount{Source: source, Target: target, Flags: unix.MS_BIND | unix.MS_REC}
}

// Tmpfs mounts a new folder in memory.
func Tmpfs(target string) Mount {
	return Mount{Source: "tmpfs", Target: target, Type: "tmpfs", Data: "mode=0755"}
}

// Proc mounts the processes of the PID namespace, whose settings of the network are those of the network namespace.
func Proc() Mount { return Mount{Source: "proc", Target: "/proc", Type: "proc"} }

// Sysfs mounts the devices of the network namespace.
func Sysfs() Mount { return Mount{Source: "sysfs", Target: "/sys", Type: "sysfs"} }

// Sysctl writes a setting of the kernel, such as net/ipv4/ip_forward.
func Sysctl(name, value string) error {
	if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o600); err != nil {
		return fmt.Errorf("setting %s: %w", name, err)
	}
	return nil
}
