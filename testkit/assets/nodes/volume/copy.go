//go:build linux

package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// copyFile copies a file to a new one with the same holes. Where the host's filesystem can, both share their blocks.
func copyFile(ctx context.Context, from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	afterStep()
	if unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) == nil {
		return nil
	}
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if err := copyData(ctx, source, target, info.Size()); err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	return target.Truncate(info.Size())
}

// copyData copies what is between the holes of a file.
func copyData(ctx context.Context, source, target *os.File, size int64) error {
	const chunk = 64 << 20 // bytes between checks of ctx
	for offset := int64(0); offset < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		start, err := source.Seek(offset, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // only a hole follows
		}
		if err != nil {
			return err
		}
		end, err := source.Seek(start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		end = min(end, start+chunk, size)
		if _, err := source.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := target.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(target, source, end-start); err != nil {
			return err
		}
		offset = end
	}
	return nil
}

// dropUnwritten frees what a file has allocated and not written: mkfs.xfs allocates its log.
func dropUnwritten(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	for start := int64(0); start < info.Size(); {
		hole, err := file.Seek(start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		end, err := file.Seek(hole, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			end = info.Size()
		} else if err != nil {
			return err
		}
		const punch = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		if end > hole && unix.Fallocate(int(file.Fd()), punch, hole, end-hole) != nil {
			return nil // it only saves space
		}
		start = end
	}
	return nil
}
