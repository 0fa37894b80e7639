package assets

import (
	"os"
	"syscall"
)

// changeTime returns the time of the last change to the file's content or attributes.
func changeTime(info os.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ctim.Nano()
	}
	return 0
}
