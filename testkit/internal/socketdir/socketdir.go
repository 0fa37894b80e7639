// Package place lets the processes of one user find each other, and find out what a killed one left behind.
//
// A place is a folder with a unix socket, for something of which there is at most one: who wants to use it dials, who
// wants to start, stop or clean it up holds its lock. Everything disappears with the last user.
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

// maxSocketPath is the shortest limit that a system sets to the path of a unix socket, darwin's, with the final zero.
const maxSocketPath = 103

// lockInterval is how often a lock is tried that somebody else holds.
const lockInterval = 5 * time.Millisecond

// killTimeout is how long a killed process may take to disappear.
const killTimeout = 10 * time.Second

// A Root is the folder that holds a user's places. It is nobody else's business: the sockets give all rights.
type Root string

// OpenRoot finds the folder, in XDG_RUNTIME_DIR if there is one and else with the temporary files. It exists only while
// a place in it is in use.
func OpenRoot() (Root, error) {
	name := "testkit-" + strconv.Itoa(os.Getuid())
	dir := filepath.Join(os.TempDir(), name)
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); runtime != "" {
		if info, err := os.Stat(runtime); err == nil && info.IsDir() {
			dir = filepath.Join(runtime, name)
		}
	}
	if len(Root(dir).Place("0123456789ab").socket()) > maxSocketPath {
		dir = filepath.Join("/tmp", name)
	}
	err := Root(dir).check()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return Root(dir), err
}

// check refuses a folder that others can get into.
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

// make makes the folder.
func (r Root) make() error {
	if err := os.Mkdir(string(r), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the folder for sockets: %w", err)
	}
	err := r.check()
	if errors.Is(err, fs.ErrNotExist) {
		return r.make() // the last user of a place has just removed it
	}
	return err
}

// Dir returns the place with this key. Keys are part of a path that has to be short: a dozen letters at most.
func (r Root) Place(key string) Dir { return Dir{root: r, key: key} }

// At returns the place with this folder, as Dir returns it.
func At(dir string) Dir { return Dir{root: Root(filepath.Dir(dir)), key: filepath.Base(dir)} }

// Sweep removes what the killed owners of any places left behind. What it cannot remove now is left for another time.
func (r Root) Sweep() {
	locks, err := filepath.Glob(filepath.Join(string(r), "*.lock"))
	if err != nil {
		return
	}
	for _, lock := range locks {
		p := r.Place(strings.TrimSuffix(filepath.Base(lock), ".lock"))
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

// inUse says whether somebody listens who is alive. A process that is being killed may lose its connections first and its
// socket last: for a while it can be dialed, although it will never answer.
func (p Dir) inUse() bool {
	conn, err := p.Dial()
	if err != nil {
		return false
	}
	_ = conn.Close() // says nothing, so it is no lease
	s, err := p.ReadState()
	return err != nil || s.Owner == process.ID{} || s.Owner.Alive() && !s.Owner.Ending()
}

// A Place is where one thing is found, whether it runs or not.
type Dir struct {
	root Root
	key  string
}

// Dir is the place's folder. It exists while the place is in use, and after that until it is cleaned up.
func (p Dir) Dir() string { return filepath.Join(string(p.root), p.key) }

// File names a file in the place's folder.
func (p Dir) File(name string) string { return filepath.Join(p.Dir(), name) }

func (p Dir) lockFile() string { return p.Dir() + ".lock" }
func (p Dir) socket() string   { return p.File("socket") }

// Listen opens the socket. The caller holds the lock, and the place is clean.
func (p Dir) Listen() (*net.UnixListener, error) {
	if err := os.Mkdir(p.Dir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making a folder for a socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.socket(), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return l, nil
}

// Dial connects to whoever listens. An error means that nobody does.
func (p Dir) Dial() (*net.UnixConn, error) {
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: p.socket(), Net: "unix"}) //nolint:wrapcheck // only a yes or no
}

var errLocked = errors.New("locked by another process")

// Lock waits for the right to start, stop or clean up what is at the place. The lock goes with the process.
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

// tryLock makes sure that the file it has locked is still the one that others would lock: it is removed with the
// place.
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

// A State is what the owner of a place leaves for those who may have to clean up after it.
type State struct {
	// Data is a folder with temporary files, or empty.
	Data string `json:"data,omitempty"`
	// Owner is the process that listens.
	Owner process.ID `json:"owner"`
	// Children are the processes it started.
	Children []process.ID `json:"children,omitempty"`
}

// WriteState replaces the state. The place's folder exists.
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

// Clean removes what an owner that does not answer left behind: processes, data and the place's folder. The caller
// holds the lock.
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
	for _, dir := range []string{s.Data, p.Dir()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing what a killed process left: %w", err)
		}
	}
	return nil
}

// Remove removes the place and its lock. The caller holds the lock and ends, or unlocks, right afterwards.
func (p Dir) Remove() error {
	err := errors.Join(os.RemoveAll(p.Dir()), os.Remove(p.lockFile()))
	_ = os.Remove(string(p.root)) // fails as long as there are other places
	if err != nil {
		return fmt.Errorf("removing a place: %w", err)
	}
	return nil
}
