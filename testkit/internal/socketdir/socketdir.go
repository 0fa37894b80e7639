// Package socketdir lets the processes of one user find each other, and clean up after a killed one.
//
// A Dir is a folder with a unix socket, for a service with at most one process. To use the service, a process dials. To
// start, stop or clean it up, it holds the lock. The folder disappears with the last user.
package socketdir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

// maxSocketPath is the smallest limit of a system on the path of a unix socket: darwin's, with the final zero.
const maxSocketPath = 103

// lockInterval is the polling interval for a lock of another process.
const lockInterval = 5 * time.Millisecond

// killTimeout bounds the wait for the end of a killed process.
const killTimeout = 10 * time.Second

// A Root is the folder of a user's socket directories. Other users have no access: the sockets grant all permissions.
type Root string

// OpenRoot returns the folder, in XDG_RUNTIME_DIR if it is set and otherwise in the temporary folder. It exists only
// while a directory in it is in use.
func OpenRoot() (Root, error) {
	name := "testkit-" + strconv.Itoa(os.Getuid())
	dir := filepath.Join(os.TempDir(), name)
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); runtime != "" {
		if info, err := os.Stat(runtime); err == nil && info.IsDir() {
			dir = filepath.Join(runtime, name)
		}
	}
	if len(Root(dir).Dir("0123456789ab").socket()) > maxSocketPath {
		dir = filepath.Join("/tmp", name)
	}
	err := Root(dir).check()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return Root(dir), err
}

// check returns an error for a folder that other users can access.
func (r Root) check() error {
	info, err := os.Lstat(string(r))
	if err != nil {
		return fmt.Errorf("looking at the folder for sockets: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ok || int(stat.Uid) != os.Getuid() {
		return fmt.Errorf("%s must be a folder that only you can enter: remove it, or set XDG_RUNTIME_DIR", r)
	}
	return nil
}

// make creates the folder.
func (r Root) make() error {
	if err := os.Mkdir(string(r), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the folder for sockets: %w", err)
	}
	err := r.check()
	if errors.Is(err, fs.ErrNotExist) {
		return r.make() // another process has just removed it
	}
	return err
}

// Dir returns the directory with this key. The key is part of a path with a length limit: use a dozen letters at most.
func (r Root) Dir(key string) Dir { return Dir{root: r, key: key} }

// At returns the directory at this path, as returned by Dir.Dir.
func At(dir string) Dir { return Dir{root: Root(filepath.Dir(dir)), key: filepath.Base(dir)} }

// Keys returns the keys of the directories that exist.
func (r Root) Keys() []string {
	locks, err := filepath.Glob(filepath.Join(string(r), "*.lock"))
	if err != nil {
		return nil
	}
	var keys []string
	for _, lock := range locks {
		keys = append(keys, strings.TrimSuffix(filepath.Base(lock), ".lock"))
	}
	return keys
}

// RemoveStale cleans up all directories of killed processes. Failures are left to the next call.
func (r Root) RemoveStale() {
	for _, key := range r.Keys() {
		p := r.Dir(key)
		if p.inUse() {
			continue
		}
		unlock, err := p.tryLock()
		if err != nil {
			continue
		}
		if !p.inUse() && p.Clean() == nil {
			_ = p.Remove()
		}
		unlock()
	}
}

// inUse reports whether a live process listens. A process that is being killed may lose its connections before its
// socket: for a while it can be dialed but does not respond.
func (p Dir) inUse() bool {
	conn, err := p.Dial()
	if err != nil {
		return false
	}
	_ = conn.Close() // sends no request, so it is no lease
	s, err := p.ReadState()
	return err != nil || s.Owner == process.ID{} || s.Owner.Alive() && !s.Owner.Ending()
}

// A Dir is the directory of one service, running or not.
type Dir struct {
	root Root
	key  string
}

// Path returns the path. It exists while the service runs, and afterwards until the cleanup.
func (p Dir) Path() string { return filepath.Join(string(p.root), p.key) }

// File returns the path of a file in the directory.
func (p Dir) File(name string) string { return filepath.Join(p.Path(), name) }

func (p Dir) lockFile() string    { return p.Path() + ".lock" }
func (p Dir) socket() string      { return p.File("socket") }
func (p Dir) failureFile() string { return p.Path() + ".failure" }

// Listen opens the socket. The caller holds the lock, and the directory is clean.
func (p Dir) Listen() (*net.UnixListener, error) {
	if err := os.Mkdir(p.Path(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making a folder for a socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.socket(), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return l, nil
}

// Dial connects to the listening process. Every error means that none listens.
func (p Dir) Dial() (*net.UnixConn, error) {
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: p.socket(), Net: "unix"})
}

var errLocked = errors.New("locked by another process")

// Lock acquires the lock for starting, stopping or cleaning up the service. The end of the process releases it.
func (p Dir) Lock(ctx context.Context) (unlock func(), err error) {
	for {
		unlock, err := p.tryLock()
		if !errors.Is(err, errLocked) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another process to start or stop something: %w", ctx.Err())
		case <-time.After(lockInterval):
		}
	}
}

// tryLock verifies that the locked file is still the current lock file: the file is removed together with the
// directory.
func (p Dir) tryLock() (unlock func(), err error) {
	if err := p.root.make(); err != nil {
		return nil, err
	}
	lock := flock.New(p.lockFile(), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if errors.Is(err, fs.ErrNotExist) || err == nil && !locked {
		return nil, errLocked
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", p.lockFile(), err)
	}
	ours, err := lock.Stat()
	current, currentErr := os.Stat(p.lockFile())
	if err != nil || currentErr != nil || !os.SameFile(ours, current) {
		_ = lock.Close()
		return nil, errLocked
	}
	return func() { _ = lock.Close() }, nil
}

// A State is the information for a cleanup after the death of the owner.
type State struct {
	// Data is a folder with temporary files, or empty.
	Data string `json:"data,omitempty"`
	// Owner is the listening process.
	Owner process.ID `json:"owner"`
	// Children are the processes started by the owner.
	Children []process.ID `json:"children,omitempty"`
}

// WriteState replaces the state. The directory must exist.
func (p Dir) WriteState(s State) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding the state of a place: %w", err)
	}
	temporary := p.File("state.new")
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return fmt.Errorf("writing the state of a place: %w", err)
	}
	if err := os.Rename(temporary, p.File("state.json")); err != nil {
		return fmt.Errorf("writing the state of a place: %w", err)
	}
	return nil
}

// ReadState returns the state that the owner has written last.
func (p Dir) ReadState() (State, error) {
	var s State
	data, err := os.ReadFile(p.File("state.json"))
	if err != nil {
		return s, fmt.Errorf("reading the state of a place: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("reading the state of a place: %w", err)
	}
	return s, nil
}

// Clean kills the processes of a dead owner and removes its data and the directory. The caller holds the lock.
func (p Dir) Clean() error {
	s, err := p.ReadState()
	if err != nil {
		s = State{} // nothing was started yet
	}
	errs := []error{s.Owner.KillGroup(killTimeout)}
	for _, id := range s.Children {
		errs = append(errs, id.KillGroup(killTimeout))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ending what a killed process left running: %w", err)
	}
	for _, dir := range []string{s.Data, p.Path()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing what a killed process left: %w", err)
		}
	}
	return nil
}

// WriteFailure records why the service has ended, outside of the directory, which is removed. The caller holds the lock.
func (p Dir) WriteFailure(reason string) error {
	if err := os.WriteFile(p.failureFile(), []byte(reason), 0o600); err != nil {
		return fmt.Errorf("writing the reason of the end: %w", err)
	}
	return nil
}

// ReadFailure returns the last recorded reason and its time, or an error if there is none.
func (p Dir) ReadFailure() (reason string, at time.Time, err error) {
	data, err := os.ReadFile(p.failureFile())
	if err != nil {
		return "", at, fmt.Errorf("reading the reason of the end: %w", err)
	}
	info, err := os.Stat(p.failureFile())
	if err != nil {
		return "", at, fmt.Errorf("reading the reason of the end: %w", err)
	}
	return string(data), info.ModTime(), nil
}

// RemoveFailure removes the recorded reason, if there is one.
func (p Dir) RemoveFailure() {
	_ = os.Remove(p.failureFile())
	_ = os.Remove(string(p.root)) // fails while there are other directories
}

// Remove removes the directory and its lock. The caller holds the lock and ends, or unlocks, right afterwards.
func (p Dir) Remove() error {
	err := errors.Join(os.RemoveAll(p.Path()), os.Remove(p.lockFile()))
	_ = os.Remove(string(p.root)) // fails while there are other directories
	if err != nil {
		return fmt.Errorf("removing a place: %w", err)
	}
	return nil
}
