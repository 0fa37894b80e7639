package deb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
)

// architecture returns Debian's name of the architecture of this program.
func architecture() string {
	if name, ok := map[string]string{"386": "i386", "arm": "armhf", "ppc64le": "ppc64el"}[runtime.GOARCH]; ok {
		return name
	}
	return runtime.GOARCH
}

// State returns a digest of all that determines the result of Resolve: apt's configuration, and the names, sizes and times
// of its sources, preferences and lists. It takes some milliseconds, unlike Resolve.
func State(ctx context.Context) (string, error) {
	if err := Available(); err != nil {
		return "", err
	}
	sum := sha256.New()
	config, err := run(ctx, "apt-config", "dump")
	if err != nil {
		return "", fmt.Errorf("reading the configuration of apt: %w", err)
	}
	sum.Write(config)
	paths, err := run(ctx, "apt-config", "shell", "A", "Dir::State::lists/d", "B", "Dir::Etc::sourcelist/f",
		"C", "Dir::Etc::sourceparts/d", "D", "Dir::Etc::preferences/f", "E", "Dir::Etc::preferencesparts/d")
	if err != nil {
		return "", fmt.Errorf("reading the configuration of apt: %w", err)
	}
	for line := range strings.Lines(string(paths)) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), "=")
		if err := addTimes(sum, strings.Trim(path, "'")); err != nil {
			return "", fmt.Errorf("reading the state of apt: %w", err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// addTimes adds the name, size and time of a file, or of those in a folder. Folders of apt that only root may read have
// nothing that counts.
func addTimes(sum hash.Hash, path string) error {
	return filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, fs.ErrPermission):
			return fs.SkipDir
		case err != nil:
			return err
		case entry.IsDir():
			return nil
		}
		info, err := entry.Info()
		if err == nil {
			fmt.Fprintf(sum, "%s %d %d\n", file, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
}
