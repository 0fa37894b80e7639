//go:build linux

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// mountFile mounts the filesystem in a file and grows it to the size of the file in bytes.
func (f *filesystem) mountFile(data, path string, size int64, flags []string) error {
	l, err := attachLoop(data)
	if err != nil {
		return err
	}
	defer l.close()
	afterStep()
	if err := os.MkdirAll(path, 0o750); err != nil {
		return err
	}
	options := strings.Join(append([]string{f.options}, flags...), ",")
	if err := unix.Mount(l.path, path, f.name, 0, options); err != nil {
		return fmt.Errorf("mounting %s at %s with options %s: %w", l.path, path, options, err)
	}
	afterStep()
	if err := f.growMounted(l.path, path, size); err != nil {
		return errors.Join(err, unmount(path))
	}
	return nil
}

// growMounted makes a device and its filesystem, which is mounted at path, as large as the file of the device.
func (f *filesystem) growMounted(device, path string, size int64) error {
	l, err := openLoop(device)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.updateCapacity(); err != nil {
		return err
	}
	afterStep()
	root, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return f.grow(root, l.file, size)
}

// bind makes the staged filesystem, which is the one of the device, visible at target.
func bind(staging, device, target string, readOnly bool) error {
	current, err := mountedDevice(target)
	if err != nil {
		return err
	}
	if current != device {
		if err := unmount(target); err != nil { // a filesystem that was shut down
			return err
		}
		if err := os.MkdirAll(target, 0o750); err != nil {
			return err
		}
		if err := unix.Mount(staging, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s at %s: %w", staging, target, err)
		}
		afterStep()
	}
	if !readOnly {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("making %s read-only: %w", target, err)
	}
	afterStep()
	return nil
}

// synchronize writes the filesystem at a path to its file, unless it was shut down.
func synchronize(path string) error {
	root, err := os.Open(path)
	if err == nil {
		err = errors.Join(unix.Syncfs(int(root.Fd())), root.Close())
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EIO) {
		return nil
	}
	return err
}

// unmount removes all mounts at a path, if any.
func unmount(path string) error {
	for {
		device, err := mountedDevice(path)
		if err != nil || device == "" {
			return err
		}
		if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmounting %s: %w", path, err)
		}
		afterStep()
	}
}

// mountedDevice returns the device that is mounted at a path, on top of others, or an empty string.
func mountedDevice(path string) (string, error) {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return m.Mountpoint != path, false })
	if err != nil {
		return "", fmt.Errorf("reading the mounts: %w", err)
	}
	if len(mounts) == 0 {
		return "", nil
	}
	return mounts[len(mounts)-1].Source, nil
}

// otherMount returns where the device is mounted besides the two paths, or an empty string.
func otherMount(device, staging, target string) (string, error) {
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return m.Source != device || m.Mountpoint == staging || m.Mountpoint == target, false
	})
	if err != nil {
		return "", fmt.Errorf("reading the mounts: %w", err)
	}
	if len(mounts) == 0 {
		return "", nil
	}
	return mounts[0].Mountpoint, nil
}
