//go:build linux

package volume

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// A store is the folder that all parts of the driver share:
//
//	volumes/ID/data        the filesystem; its size is the capacity
//	volumes/ID/meta.json   a record
//	volumes/ID/node        the name of the node that the volume is attached to
//	volumes/ID/full        exists when the volume has no free space; the size with which it was filled
//	snapshots/ID/...       data and meta.json
//	nodes/NAME             exists when the node part has run on the node
//	incomplete/            entries that are being written or removed
type store struct {
	dir string
}

const (
	volumes   = "volumes"
	snapshots = "snapshots"
)

var errExists = errors.New("already exists")

// A record is what an entry has besides its data.
type record struct {
	Name    string    `json:"name"`             // as in the request that created it
	Source  string    `json:"source,omitempty"` // the entry that it is a copy of: KIND/ID
	Created time.Time `json:"created"`
	// Filesystem is the key of the type in filesystems.
	Filesystem string `json:"filesystem"`
}

// An entry is a volume or a snapshot.
type entry struct {
	record

	kind       string
	id         string
	filesystem *filesystem
	size       int64  // in bytes
	node       string // that the volume is attached to
}

func openStore(dir string) (*store, error) {
	s := &store{dir: dir}
	for _, name := range []string{volumes, snapshots, "nodes", "incomplete"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// removeIncomplete removes what an interrupted call has left. No other call may be in progress.
func (s *store) removeIncomplete() error {
	dir := filepath.Join(s.dir, "incomplete")
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

var plainName = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// idOf returns the ID of the entry with the name in a request: the name itself if it is a plain file name.
func idOf(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	const enough = 16
	return "sha256." + hex.EncodeToString(sum[:enough])
}

func (s *store) path(kind, id string, more ...string) string {
	return filepath.Join(append([]string{s.dir, kind, id}, more...)...)
}

// get returns an entry, or an error that matches fs.ErrNotExist.
func (s *store) get(kind, id string) (*entry, error) {
	if id == "" || filepath.Base(id) != id || id == "." || id == ".." {
		return nil, fs.ErrNotExist
	}
	e := &entry{kind: kind, id: id}
	content, err := os.ReadFile(s.path(kind, id, "meta.json"))
	if err != nil {
		return nil, noName(err)
	}
	if err := json.Unmarshal(content, &e.record); err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.path(kind, id, "meta.json"), err)
	}
	if e.filesystem = filesystems[e.Filesystem]; e.filesystem == nil {
		return nil, fmt.Errorf("%s has the unknown filesystem %q", id, e.Filesystem)
	}
	info, err := os.Stat(s.data(e))
	if err != nil {
		return nil, err
	}
	e.size = info.Size()
	node, err := os.ReadFile(s.path(kind, id, "node"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	e.node = string(node)
	return e, nil
}

// data returns the path of the file with the filesystem.
func (s *store) data(e *entry) string { return s.path(e.kind, e.id, "data") }

// list returns all entries in the order of their IDs.
func (s *store) list(kind string) ([]*entry, error) {
	dirs, err := os.ReadDir(filepath.Join(s.dir, kind))
	if err != nil {
		return nil, err
	}
	var list []*entry
	for _, dir := range dirs {
		e, err := s.get(kind, dir.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted since
		}
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.id, b.id) })
	return list, nil
}

// create adds an entry whose data fill has written. It returns errExists if there is one with that ID.
func (s *store) create(kind, id string, r record, fill func(data string) error) error {
	dir, err := os.MkdirTemp(filepath.Join(s.dir, "incomplete"), id+".")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	afterStep()
	if err := fill(filepath.Join(dir, "data")); err != nil {
		return err
	}
	afterStep()
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "meta.json"), content, 0o600); err != nil {
		return err
	}
	afterStep()
	err = os.Rename(dir, s.path(kind, id)) // fails if the folder exists, because it is not empty
	if errors.Is(err, fs.ErrExist) {
		return errExists
	}
	afterStep()
	return err
}

// remove deletes an entry. Its ID is free when the entry is no longer visible.
func (s *store) remove(e *entry) error {
	dir, err := os.MkdirTemp(filepath.Join(s.dir, "incomplete"), e.id+".")
	if err != nil {
		return err
	}
	afterStep()
	if err := os.Rename(s.path(e.kind, e.id), filepath.Join(dir, e.id)); err != nil {
		return err
	}
	afterStep()
	return os.RemoveAll(dir)
}

// setNode records the node that a volume is attached to.
func (s *store) setNode(e *entry, node string) error {
	path := s.path(e.kind, e.id, "node")
	if node == "" {
		return os.Remove(path)
	}
	if err := os.WriteFile(path+".new", []byte(node), 0o600); err != nil {
		return err
	}
	afterStep()
	return os.Rename(path+".new", path)
}

func (s *store) hasNode(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, "nodes", filepath.Base(name)))
	return err == nil
}

func (s *store) addNode(name string) error {
	return os.WriteFile(filepath.Join(s.dir, "nodes", name), nil, 0o600)
}

// noName makes an error of a name that is too long the same as one of a missing file.
func noName(err error) error {
	if isTooLong(err) {
		return fs.ErrNotExist
	}
	return err
}

// afterStep is called after each change that a killed process leaves behind. Tests replace it.
var afterStep = func() {}
