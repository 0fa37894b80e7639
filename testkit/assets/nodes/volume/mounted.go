//go:build linux

package volume

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of linux/fs.h that package unix lacks. ext4 and XFS have the same.
const (
	ioctlFreeze   = 0xC0045877
	ioctlThaw     = 0xC0045878
	ioctlShutdown = 0x8004587D

	shutdownWithoutFlush = 2
)

// open opens the root of a mounted filesystem, which may be mounted in another mount namespace.
//
// It mounts the filesystem once more, without a path: the kernel has one filesystem for each device. This mount ends when
// the file is closed or the process ends.
func (f *filesystem) open(device string) (*os.File, error) {
	root, err := f.openMount(device, false)
	if errors.Is(err, unix.EBUSY) {
		return f.openMount(device, true) // it has become read-only after an error
	}
	return root, err
}

func (f *filesystem) openMount(device string, readOnly bool) (*os.File, error) {
	fsContext, err := unix.Fsopen(f.name, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", f.name, err)
	}
	defer func() { _ = unix.Close(fsContext) }()
	if err := unix.FsconfigSetString(fsContext, "source", device); err != nil {
		return nil, fmt.Errorf("opening %s: %w", device, err)
	}
	if readOnly {
		if err := unix.FsconfigSetFlag(fsContext, "ro"); err != nil {
			return nil, fmt.Errorf("opening %s: %w", device, err)
		}
	}
	if err := unix.FsconfigCreate(fsContext); err != nil {
		return nil, fmt.Errorf("mounting %s: %w", device, err)
	}
	mount, err := unix.Fsmount(fsContext, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("mounting %s: %w", device, err)
	}
	defer func() { _ = unix.Close(mount) }()
	root, err := unix.Openat(mount, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the filesystem of %s: %w", device, err)
	}
	return os.NewFile(uintptr(root), device), nil
}

// freeze writes everything to the device and blocks further writes until thaw.
func freeze(root *os.File) error { return ioctl[byte](root, ioctlFreeze, nil, "freezing") }

// thaw ends freeze. It is no error if the filesystem is not frozen.
func thaw(root *os.File) error {
	err := ioctl[byte](root, ioctlThaw, nil, "thawing")
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// shutDown makes every further operation on the filesystem fail, without writing anything to the device.
func shutDown(root *os.File) error {
	flags := uint32(shutdownWithoutFlush)
	return ioctl(root, ioctlShutdown, &flags, "shutting down")
}

// ioctl makes a system call with an argument of the type that the request needs.
func ioctl[T any](f *os.File, request uintptr, arg *T, doing string) error {
	//nolint:gosec // as in package unix
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
		return fmt.Errorf("%s the filesystem of %s: %w", doing, f.Name(), errno)
	}
	return nil
}
