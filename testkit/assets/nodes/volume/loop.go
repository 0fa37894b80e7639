//go:build linux

package volume

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A loop is a loop device whose backing file is the data of a volume. Its kernel object is freed when its filesystem is no
// longer mounted anywhere and no process has it open.
type loop struct {
	path string
	file *os.File
}

// detachedName marks a loop device whose filesystem was shut down. The mark is kept by the kernel as the name of its file.
const detachedName = "detached"

// attachLoop makes a loop device for a file. The caller must close it.
func attachLoop(path string) (*loop, error) {
	data, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = data.Close() }()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = control.Close() }()
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("asking for a free loop device: %w", err)
		}
		l := &loop{path: fmt.Sprintf("/dev/loop%d", n)}
		if l.file, err = os.OpenFile(l.path, os.O_RDWR, 0); err != nil {
			return nil, err
		}
		fd := uint32(data.Fd()) //nolint:gosec // file descriptors are small
		config := unix.LoopConfig{Fd: fd, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		copy(config.Info.File_name[:], path)
		err = unix.IoctlLoopConfigure(int(l.file.Fd()), &config)
		if err == nil {
			return l, nil
		}
		l.close()
		if !errors.Is(err, unix.EBUSY) { // another process was faster
			return nil, fmt.Errorf("configuring %s: %w", l.path, err)
		}
	}
}

// findLoops returns the loop devices of a file whose filesystems were not shut down. The caller must close them.
func findLoops(path string) ([]*loop, error) {
	var data unix.Stat_t
	if err := unix.Stat(path, &data); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	paths, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return nil, err
	}
	var found []*loop
	for _, path := range paths {
		l, err := openLoop("/dev/" + filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue // freed since
		}
		info, err := unix.IoctlLoopGetStatus64(int(l.file.Fd()))
		if err == nil && info.Inode == data.Ino && info.Device == data.Dev && !isDetached(info) {
			found = append(found, l)
		} else {
			l.close()
		}
	}
	return found, nil
}

func openLoop(path string) (*loop, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &loop{path: path, file: file}, nil
}

func isDetached(info *unix.LoopInfo64) bool {
	name, _, _ := bytes.Cut(info.File_name[:], []byte{0})
	return string(name) == detachedName
}

// markDetached keeps findLoops from returning the device.
func (l *loop) markDetached() error {
	info, err := unix.IoctlLoopGetStatus64(int(l.file.Fd()))
	if err != nil {
		return fmt.Errorf("reading the status of %s: %w", l.path, err)
	}
	info.File_name = [len(info.File_name)]uint8{}
	copy(info.File_name[:], detachedName)
	if err := unix.IoctlLoopSetStatus64(int(l.file.Fd()), info); err != nil {
		return fmt.Errorf("changing the status of %s: %w", l.path, err)
	}
	return nil
}

// updateCapacity gives the device the size of its file.
func (l *loop) updateCapacity() error {
	if err := unix.IoctlSetInt(int(l.file.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("growing %s: %w", l.path, err)
	}
	return nil
}

func (l *loop) close() { _ = l.file.Close() }
