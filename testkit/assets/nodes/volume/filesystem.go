//go:build linux

package volume

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A filesystem is a type of filesystem that a volume may have.
type filesystem struct {
	name    string
	mkfs    []string // the command that makes an empty one in a sparse file
	env     []string
	options string // for each mount
	// grow makes a filesystem, whose root is open, as large as its device, which has the size in bytes.
	grow func(root, device *os.File, size int64) error
	// reserve sets the number of blocks that files cannot have. The kernel reserves a share of the blocks, 1/reserveShare, and
	// at most reserveLimit.
	reserve                    func(root *os.File, blocks int64) error
	reserveShare, reserveLimit int64
	// blocks returns the number of all blocks, and of those that files do not have, reserved ones included.
	blocks func(root *os.File) (total, unused int64, err error)
}

var filesystems = map[string]*filesystem{
	"ext4": {
		name: "ext4",
		mkfs: []string{"mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1"},
		// The file has zeros where ext4 would write empty inode tables, and holes where files were deleted.
		options: "noinit_itable,discard",
		grow:    growExt4,
		reserve: reserveExt4, reserveShare: 50, reserveLimit: 4096, blocks: blocksExt4,
	},
	"xfs": {
		name: "xfs",
		mkfs: []string{"mkfs.xfs", "-q", "-f", "-K"},
		// The variables of its own tests lift the minimum of 300 MB.
		env: []string{"TEST_DIR=/", "TEST_DEV=/", "QA_CHECK_FS=1"},
		// A copy of a volume has the UUID of the volume.
		options: "nouuid,discard",
		grow:    growXFS,
		reserve: reserveXFS, reserveShare: 20, reserveLimit: 8192, blocks: blocksXFS,
	},
}

// defaultFilesystem returns ext4 where it can grow, and XFS elsewhere.
func defaultFilesystem() string {
	if filesystems["ext4"].canGrow() {
		return "ext4"
	}
	return "xfs"
}

// canGrow says whether the kernel lets the driver grow the filesystem while it is mounted. For ext4 that takes
// CAP_SYS_RESOURCE, which root in containers and sandboxes often lacks.
func (f *filesystem) canGrow() bool {
	if f.name != "ext4" {
		return true
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) != nil || data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// errCannotGrow is the error for a filesystem for which canGrow is false.
var errCannotGrow = status.Error(codes.FailedPrecondition,
	"ext4 grows only with CAP_SYS_RESOURCE, which this machine does not give to root; use fsType xfs")

// create writes an empty filesystem that fills a file.
func (f *filesystem) create(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, f.mkfs[0], append(f.mkfs[1:len(f.mkfs):len(f.mkfs)], path)...)
	cmd.Env = append(os.Environ(), f.env...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return dropUnwritten(path)
	}
	err = fmt.Errorf("%s: %w: %s", f.mkfs[0], err, strings.Join(strings.Fields(string(out)), " "))
	const enough = 8 << 20
	if free, statErr := freeBytes(path); statErr == nil && free < enough {
		return unix.ENOSPC
	}
	return err
}

// freeBytes returns the free space of the filesystem that has the path.
func freeBytes(path string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return bytesOf(fs.Bavail, fs.Bsize), nil
}

// bytesOf returns the number of bytes in blocks.
func bytesOf(blocks uint64, blockSize int64) int64 {
	return int64(blocks) * blockSize //nolint:gosec // the kernel counts bytes in as many bits
}

func growExt4(root, device *os.File, size int64) error {
	const ioctlResize = 0x40086610 // EXT4_IOC_RESIZE_FS
	const superblock, end = 1024, 0x154
	var s [end]byte
	if _, err := device.ReadAt(s[:], superblock); err != nil {
		return fmt.Errorf("reading the size of the filesystem of %s: %w", device.Name(), err)
	}
	blockSize := uint64(1024) << binary.LittleEndian.Uint32(s[24:])
	current := uint64(binary.LittleEndian.Uint32(s[4:])) | uint64(binary.LittleEndian.Uint32(s[0x150:]))<<32
	blocks := uint64(size) / blockSize //nolint:gosec // the size of a file is not negative
	if blocks <= current {
		return nil
	}
	return ioctl(root, ioctlResize, &blocks, "growing")
}

func growXFS(root, _ *os.File, size int64) error {
	const ioctlGrow = 0x4010586E // XFS_IOC_FSGROWFSDATA
	geometry, err := readGeometryXFS(root)
	if err != nil {
		return err
	}
	blocks := uint64(size) / uint64(geometry.blockSize) //nolint:gosec // the size of a file is not negative
	if blocks <= geometry.blocks {
		return nil
	}
	growth := struct {
		blocks     uint64
		inodeShare uint32
		_          uint32
	}{blocks: blocks, inodeShare: geometry.inodeShare}
	return ioctl(root, ioctlGrow, &growth, "growing")
}

// geometryXFS is the result of XFS_IOC_FSGEOMETRY.
type geometryXFS struct {
	blockSize  uint32
	_          [6]uint32
	inodeShare uint32
	blocks     uint64
	_          [216]byte
}

func readGeometryXFS(root *os.File) (*geometryXFS, error) {
	const ioctlGeometry = 0x8100587E // XFS_IOC_FSGEOMETRY
	g := new(geometryXFS)
	return g, ioctl(root, ioctlGeometry, g, "reading the size of")
}
