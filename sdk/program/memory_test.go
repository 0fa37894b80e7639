package program

import (
	"runtime/debug"
	"testing"
	"testing/fstest"
)

// The test changes a setting of the process, so it does not run in parallel with others.
func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	const v2, v1 = "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"
	for name, c := range map[string]struct {
		file, content string
		env           map[string]string
		want          int64
	}{
		"version 2":           {v2, "268435456\n", nil, 241591905},
		"version 1":           {v1, "100000\n", nil, 90000},
		"no limit":            {v2, "max\n", nil, 0},
		"no limit, version 1": {v1, "9223372036854771712\n", nil, 0},
		"another file":        {"proc/meminfo", "1", nil, 0},
		"set by the user":     {v2, "268435456\n", map[string]string{"GOMEMLIMIT": "1GiB"}, 0},
	} {
		debug.SetMemoryLimit(before)
		if got := limitMemory(fstest.MapFS{c.file: {Data: []byte(c.content)}}, lookupIn(c.env)); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		want := c.want
		if want == 0 {
			want = before
		}
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("%s: the process has limit %d, want %d", name, got, want)
		}
	}
}
