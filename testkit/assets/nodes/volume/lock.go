//go:build linux

package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// lock locks an entry for this process and all others, and returns it as it is then. The lock ends with unlock or with the
// process. While another operation has the lock, lock waits for the end of ctx and returns code Aborted.
func (s *store) lock(ctx context.Context, kind, id string) (e *entry, unlock func(), err error) {
	if _, err := s.get(kind, id); err != nil {
		return nil, nil, err
	}
	for {
		dir, err := os.Open(s.path(kind, id))
		if err != nil {
			return nil, nil, err
		}
		if err := flock(ctx, dir, id); err != nil {
			_ = dir.Close()
			return nil, nil, err
		}
		unlock = func() { _ = dir.Close() }
		e, current, err := s.lockedEntry(dir, kind, id)
		if current && err == nil {
			return e, unlock, nil
		}
		unlock()
		if err != nil {
			return nil, nil, err
		}
	}
}

// lockedEntry returns the entry and whether its folder is the locked one: another may have replaced it before the lock.
func (s *store) lockedEntry(locked *os.File, kind, id string) (e *entry, current bool, err error) {
	before, err := locked.Stat()
	if err != nil {
		return nil, false, err
	}
	now, err := os.Stat(s.path(kind, id))
	if err != nil {
		return nil, false, err
	}
	e, err = s.get(kind, id)
	return e, os.SameFile(before, now), err
}

func flock(ctx context.Context, file *os.File, id string) error {
	const interval = 10 * time.Millisecond
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return status.Errorf(codes.Aborted, "another operation on %q is in progress", id)
		case <-ticker.C:
		}
	}
}

func isTooLong(err error) bool { return errors.Is(err, unix.ENAMETOOLONG) }

// rpcError gives an error of the operating system its gRPC code. doing says what failed.
func rpcError(err error, doing string) error {
	if _, ok := status.FromError(err); ok {
		return err // has a code, or is nil
	}
	code := codes.Internal
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		code = codes.ResourceExhausted
	case errors.Is(err, unix.EFBIG):
		code = codes.OutOfRange
	case errors.Is(err, fs.ErrNotExist):
		code = codes.NotFound
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	}
	return status.Errorf(code, "%s: %v", doing, err)
}
