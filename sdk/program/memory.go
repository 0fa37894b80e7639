package program

import (
	"io/fs"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory makes the garbage collector run more often before the process reaches the memory limit of its container. It
// sets Go's soft limit to nine tenths of it, unless the environment variable GOMEMLIMIT is set. It returns the soft limit in
// bytes, 0 for none.
func limitMemory(root fs.FS, lookup func(string) (string, bool)) int64 {
	if _, isSet := lookup("GOMEMLIMIT"); isSet {
		return 0
	}
	limit := containerLimit(root)
	if limit == 0 {
		return 0
	}
	limit = limit / 10 * 9
	debug.SetMemoryLimit(limit)
	return limit
}

// containerLimit returns the memory limit of the container, as its own cgroup namespace shows it, in bytes. It returns 0 if
// there is none, or if it cannot be read.
func containerLimit(root fs.FS) int64 {
	for _, name := range []string{
		"sys/fs/cgroup/memory.max",                   // version 2
		"sys/fs/cgroup/memory/memory.limit_in_bytes", // version 1
	} {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			continue
		}
		// Without a limit, version 2 has the word max, and version 1 a number that no machine reaches.
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit < math.MaxInt64/2 {
			return limit
		}
	}
	return 0
}

// machine is the root of the file system.
func machine() fs.FS { return os.DirFS("/") }
