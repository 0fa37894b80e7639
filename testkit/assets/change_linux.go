package assets

import (
	"os"
	"syscall"
)

// changeTime is when the file's content or attributes last changed.
func changeTime(info os.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ctim.Nano()
	}
	return 0
}
