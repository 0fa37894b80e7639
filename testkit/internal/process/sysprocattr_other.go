//go:build !linux

package process

import "syscall"

// Without a parent-death signal, children outlive a killed parent. The next start kills them by their recorded
// identity.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
