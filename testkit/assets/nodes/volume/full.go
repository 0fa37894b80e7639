//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// fillMargin is how much of the space that is freed in a full filesystem stays in use, in bytes.
const fillMargin = 16 << 20

// Fill lets the filesystem of a volume have no free space, as if another file had taken it, until Free. It takes no space of
// the machine. Removed files free what is more than 16 MiB, and so does growth.
//
// The volume need not be mounted, and may be mounted again meanwhile. A volume that does not exist is an error that matches
// fs.ErrNotExist.
func Fill(ctx context.Context, dir, id string) error {
	return changeFull(ctx, dir, id, func(s *store, e *entry) error {
		if err := s.setFull(e); err != nil {
			return err
		}
		return eachLoop(s.data(e), func(l *loop) error { return e.filesystem.fill(l.path, 0) })
	})
}

// Free reverts Fill.
func Free(ctx context.Context, dir, id string) error {
	return changeFull(ctx, dir, id, func(s *store, e *entry) error {
		if err := s.clearFull(e); err != nil {
			return err
		}
		return eachLoop(s.data(e), func(l *loop) error { return e.filesystem.free(l.path) })
	})
}

func changeFull(ctx context.Context, dir, id string, change func(s *store, e *entry) error) error {
	s := &store{dir: dir}
	e, unlock, err := s.lock(ctx, volumes, id)
	if err != nil {
		return fmt.Errorf("volume %s: %w", id, err)
	}
	defer unlock()
	return change(s, e)
}

// FillDisk is Fill for a file with a mounted filesystem of type ext4. It lasts until FreeDisk, or until it is unmounted.
func FillDisk(file string) error {
	return eachLoop(file, func(l *loop) error { return filesystems["ext4"].fill(l.path, 0) })
}

// FreeDisk reverts FillDisk.
func FreeDisk(file string) error {
	return eachLoop(file, func(l *loop) error { return filesystems["ext4"].free(l.path) })
}

// eachLoop calls a function for each loop device of a file.
func eachLoop(file string, do func(l *loop) error) error {
	loops, err := findLoops(file)
	for _, l := range loops {
		err = errors.Join(err, do(l))
		l.close()
	}
	return err
}

// setFull records that a volume is full, and with which size it was filled.
func (s *store) setFull(e *entry) error {
	path := s.path(e.kind, e.id, "full")
	if err := os.WriteFile(path+".new", []byte(strconv.FormatInt(e.size, 10)), 0o600); err != nil {
		return err
	}
	afterStep()
	return os.Rename(path+".new", path)
}

func (s *store) clearFull(e *entry) error {
	err := os.Remove(s.path(e.kind, e.id, "full"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fillAgain fills a volume that was full when it was mounted the last time.
func (s *store) fillAgain(e *entry) error {
	content, err := os.ReadFile(s.path(e.kind, e.id, "full"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	size, err := strconv.ParseInt(string(content), 10, 64)
	if err != nil {
		return fmt.Errorf("reading the size of volume %s: %w", e.id, err)
	}
	return eachLoop(s.data(e), func(l *loop) error { return e.filesystem.fill(l.path, e.size-size) })
}

// fill reserves the free space of a mounted filesystem, except for the bytes by which it has grown since it was filled.
func (f *filesystem) fill(device string, grown int64) error {
	return f.changeReserve(device, func(unused, blockSize int64) int64 { return unused + (fillMargin-grown)/blockSize })
}

// free reserves as many blocks as the kernel does when it mounts the filesystem.
func (f *filesystem) free(device string) error {
	return f.changeReserve(device, func(int64, int64) int64 { return 0 })
}

// changeReserve sets the number of blocks that files cannot have, but not to less than the kernel's default.
func (f *filesystem) changeReserve(device string, wanted func(unused, blockSize int64) int64) error {
	root, err := f.open(device)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	fs, err := statfs(root)
	if err != nil {
		return err
	}
	total, unused, err := f.blocks(root)
	if err != nil {
		return err
	}
	usual := min(total/f.reserveShare, f.reserveLimit)
	return f.reserve(root, min(max(wanted(unused, fs.Bsize), usual), total-1))
}

func statfs(root *os.File) (fs unix.Statfs_t, err error) {
	if err := unix.Fstatfs(int(root.Fd()), &fs); err != nil {
		return fs, &os.PathError{Op: "fstatfs", Path: root.Name(), Err: err}
	}
	return fs, nil
}

func blocksExt4(root *os.File) (total, unused int64, err error) {
	fs, err := statfs(root)
	return bytesOf(fs.Blocks, 1), bytesOf(fs.Bfree, 1), err
}

// reserveExt4 changes what ext4 reserves for its metadata. Unlike the blocks that are reserved for root, root in a container
// cannot use it.
func reserveExt4(root *os.File, blocks int64) error {
	file := filepath.Join("/sys/fs/ext4", filepath.Base(root.Name()), "reserved_clusters")
	return os.WriteFile(file, []byte(strconv.FormatInt(blocks, 10)), 0o600)
}

// reservedXFS is the argument of XFS_IOC_GET_RESBLKS and XFS_IOC_SET_RESBLKS.
type reservedXFS struct {
	blocks, available uint64
}

func blocksXFS(root *os.File) (total, unused int64, err error) {
	const ioctlReserved = 0x80105873 // XFS_IOC_GET_RESBLKS
	var reserved reservedXFS
	if err := ioctl(root, ioctlReserved, &reserved, "reading the reserve of"); err != nil {
		return 0, 0, err
	}
	geometry, err := readGeometryXFS(root)
	if err != nil {
		return 0, 0, err
	}
	fs, err := statfs(root)
	return bytesOf(geometry.blocks, 1), bytesOf(fs.Bfree+reserved.available, 1), err
}

func reserveXFS(root *os.File, blocks int64) error {
	const ioctlReserve = 0xC0105872                 // XFS_IOC_SET_RESBLKS
	reserved := reservedXFS{blocks: uint64(blocks)} //nolint:gosec // not negative
	return ioctl(root, ioctlReserve, &reserved, "changing the reserve of")
}
