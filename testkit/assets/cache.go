package assets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"
)

// manifestFile lies beside the programs and holds their digests.
const manifestFile = "manifest.json"

// manifest describes a folder of the cache.
type manifest struct {
	Source   string            `json:"source"`   // for people, see Set
	Files    map[string]digest `json:"files"`    // by name
	Programs map[string]string `json:"programs"` // name of the program -> name of the file
}

// digest identifies the content of a file.
type digest struct {
	SHA256 string `json:"sha256"`
	Stamp  stamp  `json:"stamp"`
}

// stamp is file metadata that changes with the content. As long as it is equal, hashing 150 MB again is unnecessary.
type stamp struct {
	Size     int64 `json:"size"`
	Modified int64 `json:"modified"` // nanoseconds since 1970
	Changed  int64 `json:"changed"`  // the same for the inode, where available; users cannot set it
}

func stampOf(file string) (stamp, error) {
	info, err := os.Stat(file)
	if err != nil {
		return stamp{}, fmt.Errorf("examining a file: %w", err)
	}
	return stamp{Size: info.Size(), Modified: info.ModTime().UnixNano(), Changed: changeTime(info)}, nil
}

// buildDir returns the cache folder of the build.
func (f *finder) buildDir() string {
	return filepath.Join(f.cacheDir, fmt.Sprintf("%sbuilt-%s-%s-%s",
		f.product.prefix, KubernetesVersion, platform(), f.product.sourceDigest()))
}

// downloadDir returns the cache folder of a download.
func (f *finder) downloadDir() string {
	return filepath.Join(f.cacheDir, fmt.Sprintf("downloaded-%s-%s", minorVersion(), platform()))
}

// fromCache searches for programs that an earlier call built or downloaded.
func (f *finder) fromCache(context.Context) (Set, error) {
	var reasons []string
	dirs := []string{f.buildDir()}
	if f.product.downloads {
		dirs = append(dirs, f.downloadDir())
	}
	for _, dir := range dirs {
		set, err := f.open(dir)
		if err == nil {
			return set, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			reasons = append(reasons, err.Error())
		}
	}
	if len(reasons) > 0 {
		return Set{}, skip("%s", strings.Join(reasons, "; "))
	}
	return Set{}, skipQuietly("nothing was built or downloaded yet")
}

// open returns the set in a folder of the cache, if it has all needed programs and is unchanged since it was stored.
func (f *finder) open(dir string) (Set, error) {
	data, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return Set{}, fmt.Errorf("reading the manifest: %w", err)
	}
	var m manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return Set{}, fmt.Errorf("%s is damaged: its manifest is not JSON (%w)", dir, err)
	}
	if missing := missingPrograms(f.required, slices.Collect(maps.Keys(m.Programs))); len(missing) > 0 {
		return Set{}, fmt.Errorf("%s lacks %s", dir, strings.Join(missing, ", "))
	}
	if err := m.verify(dir); err != nil {
		return Set{}, fmt.Errorf("%s is damaged: %w", dir, err)
	}
	return Set{Dir: dir, Origin: m.Source}, nil
}

// verify returns an error for a folder that differs from its manifest. It records a new stamp on equal content, as
// after a copy.
func (m *manifest) verify(dir string) error {
	for program, file := range m.Programs {
		info, err := os.Stat(filepath.Join(dir, program))
		if err != nil {
			return fmt.Errorf("%s is missing", program)
		}
		want, err := os.Stat(filepath.Join(dir, file))
		if err != nil || !os.SameFile(info, want) || info.Mode().Perm()&0o100 == 0 {
			return fmt.Errorf("%s is not the program it was", program)
		}
	}
	renewed := false
	for name, want := range m.Files {
		file := filepath.Join(dir, name)
		now, err := stampOf(file)
		if err != nil {
			return err
		}
		if now == want.Stamp {
			continue
		}
		sum, err := hash(file)
		if err != nil {
			return err
		}
		if sum != want.SHA256 {
			return fmt.Errorf("%s has changed", name)
		}
		m.Files[name] = digest{SHA256: sum, Stamp: now}
		renewed = true
	}
	if renewed {
		_ = m.write(dir) // a failure only costs time, as in a read-only cache
	}
	return nil
}

// write replaces the manifest in the folder atomically.
func (m *manifest) write(dir string) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the manifest: %w", err)
	}
	temp, err := os.CreateTemp(dir, manifestFile+"-*")
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(append(data, '\n'))
	if err := errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	if err := os.Rename(temp.Name(), filepath.Join(dir, manifestFile)); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return nil
}

// store turns a temporary folder with programs into a folder of the cache, atomically. programs maps the name of a
// program to its file in the folder. If the names differ, keep creates a link.
func store(temp, dir, source string, programs map[string]string) error {
	m := manifest{Source: source, Programs: programs, Files: map[string]digest{}}
	for program, file := range programs {
		if program != file {
			if err := os.Symlink(file, filepath.Join(temp, program)); err != nil {
				return fmt.Errorf("linking %s: %w", program, err)
			}
		}
		if _, ok := m.Files[file]; ok {
			continue
		}
		d, err := syncExecutable(filepath.Join(temp, file))
		if err != nil {
			return err
		}
		m.Files[file] = d
	}
	if err := m.write(temp); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil { // it exists only if it was damaged
		return fmt.Errorf("removing what was damaged: %w", err)
	}
	if err := os.Rename(temp, dir); err != nil {
		return fmt.Errorf("moving the programs into the cache: %w", err)
	}
	return syncDir(filepath.Dir(dir))
}

// syncExecutable makes a file executable, syncs it to disk and returns its digest.
func syncExecutable(file string) (digest, error) {
	f, err := os.Open(file)
	if err != nil {
		return digest{}, fmt.Errorf("opening a program: %w", err)
	}
	err = errors.Join(f.Chmod(0o755), f.Sync(), f.Close())
	if err != nil {
		return digest{}, fmt.Errorf("making %s durable: %w", filepath.Base(file), err)
	}
	sum, err := hash(file)
	if err != nil {
		return digest{}, err
	}
	s, err := stampOf(file)
	return digest{SHA256: sum, Stamp: s}, err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("opening the cache: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("making the cache durable: %w", err)
	}
	return nil
}

func hash(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("hashing a program: %w", err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hashing %s: %w", filepath.Base(file), err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// tempPrefix begins the names of temporary folders, later renamed into the cache or removed.
const tempPrefix = "unfinished-"

// exclusively calls build with a temporary folder while holding the lock of the cache. It skips the build if dir has
// the needed programs once the lock is acquired.
func (f *finder) exclusively(ctx context.Context, dir string, build func(temp string) error) (Set, error) {
	if err := os.MkdirAll(f.cacheDir, 0o750); err != nil {
		return Set{}, fmt.Errorf("making the cache: %w", withAdvice(err, f.cacheDir))
	}
	lock := flock.New(filepath.Join(f.cacheDir, "lock"))
	locked, err := lock.TryLock()
	if err == nil && !locked {
		stop := f.report.startPhase("waiting for another process that provisions a control plane", 0)
		locked, err = lock.TryLockContext(ctx, lockInterval)
		stop()
	}
	if err != nil || !locked {
		return Set{}, fmt.Errorf("locking %s: %w", lock.Path(), err)
	}
	defer func() { _ = lock.Unlock() }()
	if set, err := f.open(dir); err == nil { // built by another process
		return set, nil
	}
	// The processes that made these have died: a live one would hold the lock.
	leftovers, _ := filepath.Glob(filepath.Join(f.cacheDir, tempPrefix+"*"))
	for _, leftover := range leftovers {
		if err := os.RemoveAll(leftover); err != nil {
			return Set{}, fmt.Errorf("removing an unfinished build: %w", err)
		}
	}
	temp, err := os.MkdirTemp(f.cacheDir, tempPrefix+"*")
	if err != nil {
		return Set{}, fmt.Errorf("making a folder in the cache: %w", withAdvice(err, f.cacheDir))
	}
	defer func() { _ = os.RemoveAll(temp) }() // after success it has been renamed
	if err := build(temp); err != nil {
		return Set{}, err
	}
	return f.open(dir)
}
