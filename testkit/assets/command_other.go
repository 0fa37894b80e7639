//go:build !linux

package assets

import "syscall"

// childAttributes puts a child into a process group of its own, to be killed as a whole. A Go tool whose parent is gone
// ends when it next has something to say.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
