//go:build !linux

package assets

import "syscall"

// childAttributes puts a child into its own process group, to be killed as a whole. A Go tool without a parent ends at
// its next output.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
