// Package tempfolder makes temporary folders that do not outlive a killed process for long: the next Make removes them.
package tempfolder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"
)

const (
	prefix = "testkit-"
	// lockFile is locked by the process that made the folder until its end. A process in another PID namespace can see that.
	lockFile = "made-by.lock"
)

// locks has the locks of the folders that this process made, which have to stay open.
var locks = struct {
	sync.Mutex
	byFolder map[string]*flock.Flock
}{byFolder: map[string]*flock.Flock{}}

// Make makes a folder in the folder for temporary files, and removes those of processes that ended without Remove. It is
// safe for concurrent use.
func Make() (string, error) { return makeIn(os.TempDir()) }

func makeIn(root string) (string, error) {
	removeAbandoned(root)
	dir, err := os.MkdirTemp(root, prefix)
	if err != nil {
		return "", fmt.Errorf("making a temporary folder: %w", err)
	}
	// Only a file that is locked already gets the name that removeAbandoned looks for.
	unseen := filepath.Join(dir, lockFile+".new")
	lock := flock.New(unseen, flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err == nil && locked {
		err = os.Rename(unseen, filepath.Join(dir, lockFile))
	}
	if err != nil || !locked {
		return "", errors.Join(fmt.Errorf("locking the temporary folder %s (%v): %w", dir, locked, err), os.RemoveAll(dir))
	}
	locks.Lock()
	defer locks.Unlock()
	locks.byFolder[dir] = lock
	return dir, nil
}

// Remove removes a folder with everything in it. The folder may also be one that Make did not make, or be gone.
func Remove(dir string) error {
	err := os.RemoveAll(dir)
	locks.Lock()
	lock := locks.byFolder[dir]
	delete(locks.byFolder, dir)
	locks.Unlock()
	if lock != nil {
		err = errors.Join(err, lock.Close())
	}
	if err != nil {
		return fmt.Errorf("removing a temporary folder: %w", err)
	}
	return nil
}

// removeAbandoned removes the folders that no process holds. What cannot be read or removed may belong to another user.
func removeAbandoned(root string) {
	files, _ := filepath.Glob(filepath.Join(root, prefix+"*", lockFile)) // the pattern is valid
	for _, file := range files {
		lock := flock.New(file, flock.SetFlag(os.O_RDWR)) // does not create the file in a folder that is being removed
		if locked, err := lock.TryLock(); err != nil || !locked {
			continue
		}
		_ = os.RemoveAll(filepath.Dir(file))
		_ = lock.Close()
	}
}
